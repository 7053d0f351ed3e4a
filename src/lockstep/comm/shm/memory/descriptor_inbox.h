#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/base/deadline.h"
#include "lockstep/base/files/unique_fd.h"

namespace lockstep::shm {

/// Proves that what arrives comes from a member of the group: random, told over the authenticated store.
using Token = std::array<std::uint64_t, 2>;

/// What a descriptor is sent under: nobody uses one twice for the same inbox.
struct Label {
  Token token{};
  std::uint64_t number = 0;
  friend bool operator<(const Label& a, const Label& b) {
    return std::tie(a.token, a.number) < std::tie(b.token, b.number);
  }
};

/// Where a rank receives descriptors from other ranks of its host, whatever it is doing: a listening Unix socket
/// without a file, under a name that the kernel picks. A sender needs no answer, so no thread serves it. Only processes
/// of the same user are heard, and only what carries a label that is asked for is kept.
///
/// Thread-safe.
class DescriptorInbox {
 public:
  /// @throws Error  where no socket can be made
  DescriptorInbox();

  std::uint64_t name() const { return name_; }
  /// The descriptor sent under `label`; none if it has not come after `patience`.
  /// @throws Error  where no descriptors are left
  UniqueFd take(const Label& label, std::chrono::milliseconds patience);

 private:
  void accept_senders();
  void read_letters();

  UniqueFd socket_;
  std::uint64_t name_ = 0;
  std::mutex mutex_;
  std::vector<UniqueFd> senders_;  // connected; their letter may still be on its way
  std::map<Label, UniqueFd> letters_;
};

/// Sends `fd` to the inbox of that name. It is there when this returns, and lives even if it is closed here.
/// @return  false where nobody of this user listens there any more
/// @throws Error         with the cause
/// @throws TimeoutError  if its queue stays full until the deadline
bool send_descriptor(std::uint64_t inbox, const Label& label, int fd, Deadline deadline);

}  // namespace lockstep::shm
