#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// Seconds of a time limit in sbatch's forms: minutes, minutes:seconds, hours:minutes:seconds, or
/// days-hours[:minutes[:seconds]]. Nothing for any other text. Zero requests no limit from Slurm.
std::optional<std::int64_t> slurm_seconds(const std::string& limit);

/// Whether ranks that should be signalled `lead_s` seconds before the limit would be signalled as soon as they start.
/// Slurm signals up to a minute early.
bool is_signalled_at_start(std::int64_t limit_s, std::int64_t lead_s);

}  // namespace lockstep
