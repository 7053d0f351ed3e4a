#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// Seconds of a time limit as sbatch reads it: minutes, minutes:seconds, hours:minutes:seconds, or
/// days-hours[:minutes[:seconds]]. Nothing for any other text. Zero asks Slurm for no limit.
std::optional<std::int64_t> slurm_seconds(const std::string& limit);

/// Whether ranks that are to be signalled `lead_s` seconds before the limit would be signalled as soon as they start.
/// Slurm signals up to a minute early.
bool is_signalled_at_start(std::int64_t limit_s, std::int64_t lead_s);

}  // namespace lockstep
