#pragma once

#include <string>
#include <vector>

namespace lockstep {

/// A training's output folder that must not stay behind, empty, if the training is refused. Make it before any rank
/// makes the folder, and let it end after the folder's locks, which are files there.
class RefusedFolder {
 public:
  /// Notes which folders of the path are missing.
  explicit RefusedFolder(const std::string& path);
  /// If the training was refused, removes those that are there now, and empty.
  ~RefusedFolder();
  RefusedFolder(const RefusedFolder&) = delete;
  RefusedFolder& operator=(const RefusedFolder&) = delete;

  void note_refusal() { is_refused_ = true; }

 private:
  std::vector<std::string> missing_;  // the innermost first
  bool is_refused_ = false;
};

}  // namespace lockstep
