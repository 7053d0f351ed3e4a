#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// The long options, without their hyphens, that sbatch and srun of Slurm 20 to 24 list.
const std::vector<std::string>& slurm_options();

/// Whether the option `name`, one of `slurm_options`, takes no value, or takes one only after "=".
bool takes_no_value(const std::string& name);

}  // namespace lockstep
