#pragma once

#include <optional>
#include <string>

namespace lockstep {

/// The forms of values that sbatch takes. Each function accepts any text and takes time linear in it.

/// A whole number of at least 1.
bool is_slurm_count(const std::string& text);
/// A value of --nodes: a number of at least 1, a range, or a list of these; a number may end with "k" or "m" as a
/// factor.
bool is_slurm_nodes(const std::string& text);
/// A value of --mem: a whole number that may end with K, M, G or T in either case, then with B: "64G", "64gb".
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
