#include <chrono>
#include <set>
#include <string>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/targets.h"
#include "lockstep/net/server/store_service.h"
#include "lockstep/net/store/frame.h"
#include "lockstep/net/store/wire.h"

namespace lockstep::fuzz {

// Requests of up to four clients, each as: client, length, body. A client whose request is malformed is disconnected.
void run_store_request(std::string_view bytes) {
  auto now = StoreService::Clock::now();
  std::set<ConnectionId> open{0, 1, 2, 3};
  StoreService service("store", [&](ConnectionId connection, const std::string& answer) {
    LOCKSTEP_HOLDS(connection < 4 && answer.size() >= 9 && answer.size() <= kMaxFrameBytes);
  });
  while (bytes.size() >= 2) {
    const ConnectionId connection = static_cast<unsigned char>(bytes[0]) % 4;
    const std::string_view body = bytes.substr(2, static_cast<unsigned char>(bytes[1]));
    bytes.remove_prefix(2 + body.size());
    now += std::chrono::milliseconds(10);
    if (open.count(connection) == 0) continue;
    try {
      service.handle(connection, body, now);
    } catch (const WireError&) {
      service.disconnected(connection, "sent a malformed request");
      open.erase(connection);
    }
    service.check_heartbeats(now, std::chrono::seconds(1));
  }
  for (const ConnectionId connection : open) service.disconnected(connection, "left");
}

}  // namespace lockstep::fuzz
