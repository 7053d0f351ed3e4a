#include "lockstep/comm/shm/memory/transient_pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "lockstep/base/log.h"
#include "lockstep/comm/shm/protocols/leaving_protocol.h"

namespace lockstep::shm {

std::size_t TransientPages::bytes_of_part(std::size_t bytes, int ranks) {
  const auto parts = static_cast<std::size_t>(ranks);
  return (whole_pages(std::max<std::size_t>(bytes, 1)) + page_bytes() + parts - 1) / parts;
}

Word& TransientPages::left() const {
  const Mapping& all = buffer_->mapping();
  return *reinterpret_cast<Word*>(all.data() + all.bytes() - page_bytes());
}

void TransientPages::leave() noexcept {
  if (!LeavingProtocol<Group>(group_).leave(left())) return;
  if (bytes_ == 0 || ::madvise(data(), bytes_, MADV_REMOVE) == 0) return;
  static std::atomic<bool> has_warned{false};
  if (has_warned.exchange(true)) return;
  log_warning("the kernel does not release pages of shared memory ({}): gathered weights stay in this host's memory",
              std::strerror(errno));
}

}  // namespace lockstep::shm
