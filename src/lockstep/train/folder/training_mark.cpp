#include "lockstep/train/folder/training_mark.h"

#include <fmt/format.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <random>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/train/folder/folder_holder.h"

namespace lockstep {
namespace {

constexpr const char* kAttribute = "user.lockstep.training";
constexpr std::size_t kMostMarkBytes = 1024;

// A forked process is another one.
std::string number_of_this_process() {
  static const std::uint64_t drawn = (std::uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  return fmt::format("{:016x}.{}", drawn, ::getpid());
}

}  // namespace

TrainingMark TrainingMark::of_this_process() { return {number_of_this_process(), FolderHolder::this_process().text()}; }

std::optional<TrainingMark> TrainingMark::read(const std::string& folder) {
  std::string text(kMostMarkBytes, '\0');
  const ssize_t bytes = ::getxattr(folder.c_str(), kAttribute, text.data(), text.size());
  if (bytes <= 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(bytes));
  const std::size_t end = std::min(text.find(' '), text.size());
  return TrainingMark{text.substr(0, end), text.substr(std::min(end + 1, text.size()))};
}

void TrainingMark::write(const std::string& folder) const {
  const std::string text = (number + " " + who).substr(0, kMostMarkBytes);
  if (::setxattr(folder.c_str(), kAttribute, text.data(), text.size(), 0) == 0) return;
  log_debug("{}: cannot note which training has begun there: {}", folder, errno_text(errno));
}

}  // namespace lockstep
