#include "lockstep/launch/nodes/member_grants.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {

MemberGrants::MemberGrants() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) throw Error("cannot make an event: " + errno_text(errno), "the launcher", "raise ulimit -n");
}

void MemberGrants::push(std::optional<int> member) {
  {
    const std::lock_guard lock(mutex_);
    answers_.push_back(member);
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof(one));
}

std::vector<std::optional<int>> MemberGrants::take() {
  const std::lock_guard lock(mutex_);
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(event_.get(), &count, sizeof(count));
  return std::exchange(answers_, {});
}

}  // namespace lockstep
