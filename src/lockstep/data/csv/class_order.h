#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// Sorts the names of classes in natural order: numerically if all are numbers, else as texts.
void sort_classes(std::vector<std::string>& names);

}  // namespace lockstep
