#pragma once

#include <optional>

namespace lockstep {

/// A rank's place in a group of ranks.
struct GroupPlace {
  int rank = 0;
  int world_size = 1;
};

/// The caller's place in its default group, for modules that do not know groups: that of this thread if it is one rank
/// of several threads, else that of this process. Empty without a group. While threads are ranks, it is also empty in
/// other threads: a rank may have started one of them, and it is not known which rank.
std::optional<GroupPlace> default_place();

/// Sets the place of this process; empty when its group ends. Thread-safe.
void set_default_place(std::optional<GroupPlace> place);

/// While it lives, this thread is a rank. Threads that it starts are not.
class ThreadPlace {
 public:
  explicit ThreadPlace(GroupPlace place);
  ~ThreadPlace();
  ThreadPlace(const ThreadPlace&) = delete;
  ThreadPlace& operator=(const ThreadPlace&) = delete;

 private:
  std::optional<GroupPlace> before_;
};

}  // namespace lockstep
