#pragma once

#include <string>

namespace lockstep {

/// Between the name of a file and the six letters that mkostemp(3) draws, while an AtomicFile is being written.
inline constexpr const char* kUnfinishedMark = ".unfinished-";

/// Removes what processes that were killed have left of the files that they were writing into `folder` and the folders
/// in it, but for those of checkpoints, which have rules of their own. For the one process that may write there.
void remove_unfinished_files(const std::string& folder);

}  // namespace lockstep
