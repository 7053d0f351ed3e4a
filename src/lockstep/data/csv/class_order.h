#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// Sorts the names of classes as people count them: by size if all are numbers, else as texts.
void sort_classes(std::vector<std::string>& names);

}  // namespace lockstep
