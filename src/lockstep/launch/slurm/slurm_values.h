#pragma once

#include <optional>
#include <string>

namespace lockstep {

/// The forms of values that sbatch takes. Any text may be asked about: the time is linear in it.

/// A whole number from 1.
bool is_slurm_count(const std::string& text);
/// What --nodes takes: a number from 1, a range, or a list of them; "k" and "m" behind a number multiply it.
bool is_slurm_nodes(const std::string& text);
/// What --mem takes: a whole number, and K, M, G or T behind it, in either case, perhaps with a B: "64G", "64gb".
bool is_slurm_memory(const std::string& text);
/// "UNLIMITED" or "INFINITE", in either case.
bool is_slurm_unlimited(const std::string& text);
/// The number at the end of "4", "gpu:4" or "gpu:a100:4": at most six digits.
std::optional<int> slurm_number(const std::string& text);
/// The seconds of "B:USR1@120": at most six digits.
std::optional<int> slurm_signal_lead(const std::string& text);
/// The digits of "4 nodes" or "1 node" in a comment; empty if there is no such thing.
std::string nodes_in_comment(const std::string& line);

}  // namespace lockstep
