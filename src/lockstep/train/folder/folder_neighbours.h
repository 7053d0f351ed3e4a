#pragma once

#include <string>

namespace lockstep {

/// Requires that `folder`, in which a training begins, is in no folder of another one that runs now, such as a
/// checkpoint of it, and is not the folder around such a checkpoint. The other one writes over and removes what is in
/// its folder. Trainings of this process, and of ranks that the same launcher has started, may be there. The folder is
/// not taken.
/// @throws Error  naming the other training and its folder
void require_no_training_around(const std::string& folder);

}  // namespace lockstep
