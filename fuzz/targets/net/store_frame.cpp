#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/base/files/unique_fd.h"
#include "lockstep/net/store/frame.h"

namespace lockstep::fuzz {

void run_store_frame(std::string_view bytes) {
  int ends[2];
  LOCKSTEP_HOLDS(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
  const UniqueFd ours(ends[0]);
  UniqueFd theirs(ends[1]);
  if (bytes.size() > (std::size_t{32} << 10)) bytes = bytes.substr(0, std::size_t{32} << 10);  // what a socket holds
  LOCKSTEP_HOLDS(::send(theirs.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  theirs = UniqueFd();
  FrameReader reader{FrameSeal()};
  std::size_t taken = 0;
  for (bool is_open = true; is_open;) {
    is_open = reader.read_from(ours.get());
    while (const std::optional<std::string> body = reader.next()) taken += 4 + body->size();
  }
  LOCKSTEP_HOLDS(taken <= bytes.size());
}

}  // namespace lockstep::fuzz
