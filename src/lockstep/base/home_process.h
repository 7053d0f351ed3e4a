#pragma once

#include <unistd.h>

#include <memory>

namespace lockstep {

/// The process in which an object was made. A fork copies the object, but not its threads. The resources outside of
/// memory, such as files, connections and its place among other ranks, remain the parent's.
class HomeProcess {
 public:
  /// False in a process that was forked from it.
  bool is_here() const noexcept { return ::getpid() == pid_; }

 private:
  pid_t pid_ = ::getpid();
};

/// Keeps `object` until this process ends, and never destroys it. For a copy in a forked process: its destructor would
/// wait for threads that do not exist, or send messages in the parent's name.
void never_destroy(std::shared_ptr<void> object);

}  // namespace lockstep
