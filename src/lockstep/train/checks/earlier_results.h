#pragma once

#include <string>

namespace lockstep {

/// A warning for a training that starts from the beginning, if `output_dir` has checkpoints or a model of an earlier
/// one: it names the newest, and how to continue or to keep it. Empty for any other folder.
std::string earlier_results_line(const std::string& output_dir);

}  // namespace lockstep
