#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>

#include "lockstep/base/files/create_folders.h"

namespace lockstep {

/// What this process has of each folder: its threads and Trainers share it. `Held` says whether it `is_in_place`.
template <class Held>
class HeldFolders {
 public:
  /// What the process has of `folder`, under whatever name; otherwise what `take` returns, which may be null. Makes the
  /// folder if it does not exist.
  template <class Take>
  std::shared_ptr<const Held> get(const std::string& folder, const Take& take) {
    create_folders(folder);
    std::error_code problem;
    const auto real = std::filesystem::canonical(folder, problem);
    const std::lock_guard<std::mutex> guard(mutex_);
    std::weak_ptr<const Held>& own = own_[problem ? folder : real.string()];
    if (auto held = own.lock(); held && held->is_in_place()) return held;
    std::shared_ptr<const Held> taken = take();
    own = taken;
    return taken;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const Held>> own_;
};

}  // namespace lockstep
