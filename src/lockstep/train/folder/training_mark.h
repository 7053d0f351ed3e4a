#pragma once

#include <optional>
#include <string>

namespace lockstep {

/// The training that has begun last in a folder. It is an attribute of the folder (`user.lockstep.training`), so it
/// leaves no file behind, and stays when the training has ended and somebody has removed the files of its locks. On a
/// file system without such attributes nothing is known.
struct TrainingMark {
  std::string number;  ///< differs between processes that have begun trainings
  std::string who;     ///< "process 12 on host a, since ..."

  /// What a training that this process begins leaves.
  static TrainingMark of_this_process();
  static std::optional<TrainingMark> read(const std::string& folder);
  void write(const std::string& folder) const;
};

}  // namespace lockstep
