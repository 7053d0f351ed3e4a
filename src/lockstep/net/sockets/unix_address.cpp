#include "lockstep/net/sockets/unix_address.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/topology.h"

namespace lockstep {

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    throw Error(fmt::format("the path of the Unix socket has {} bytes, but the kernel allows {}: {}", path.size(),
                            sizeof(address.sun_path) - 1, path),
                host_name(), "choose a shorter folder: set XDG_RUNTIME_DIR or TMPDIR to one");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

}  // namespace lockstep
