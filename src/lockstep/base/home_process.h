#pragma once

#include <unistd.h>

#include <memory>

namespace lockstep {

/// The process in which an object was made. A fork copies the object, but not its threads, and what it has outside of
/// memory, such as files, connections and its place among other ranks, stays the parent's.
class HomeProcess {
 public:
  /// False in a process that was forked from it.
  bool is_here() const noexcept { return ::getpid() == pid_; }

 private:
  pid_t pid_ = ::getpid();
};

/// Keeps `object` until this process ends, and never destroys it: for a copy in a forked process, whose destructor
/// would wait for threads that are not there, or speak in the parent's name.
void never_destroy(std::shared_ptr<void> object);

}  // namespace lockstep
