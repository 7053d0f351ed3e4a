#include <optional>
#include <string>
#include <vector>

#include "fuzz/fuzz_target.h"
#include "fuzz/targets/net/tapped_socket.h"
#include "fuzz/targets/targets.h"
#include "lockstep/net/hmac.h"
#include "lockstep/net/store/frame.h"

namespace lockstep::fuzz {
namespace {

// Frames of 1, 2, 3, ... bytes.
std::vector<std::string> frames_of(std::string_view bytes) {
  std::vector<std::string> frames;
  while (!bytes.empty()) {
    frames.emplace_back(bytes.substr(0, frames.size() + 1));
    bytes.remove_prefix(frames.back().size());
  }
  return frames;
}

void run_sealed(std::string_view bytes, bool encrypted) {
  const std::string key = hmac_sha256("store_seal", {bytes});  // see peer_record
  const std::vector<std::string> frames = frames_of(bytes.substr(0, std::size_t{4} << 10));
  TappedSocket from, to;
  FrameWriter writer(sealing_seal(key, encrypted));
  for (const std::string& frame : frames) writer.push(frame);
  writer.flush(from.ours.get());
  LOCKSTEP_HOLDS(writer.pending_bytes() == 0);
  const std::string carried = from.carried();
  const std::string arriving = attacked(carried, bytes.substr(0, 256));
  to.deliver(arriving);
  FrameReader reader(opening_seal(key, encrypted));
  std::size_t read = 0;
  for (bool is_open = true; is_open;) {
    is_open = reader.read_from(to.ours.get());
    while (const std::optional<std::string> body = reader.next()) LOCKSTEP_HOLDS(*body == frames.at(read++));
  }
  if (arriving == carried) LOCKSTEP_HOLDS(read == frames.size());
}

}  // namespace

// As peer_record, for the frames of a store's connection, in clear with codes that prove them, and encrypted.
void run_store_seal(std::string_view bytes) {
  const bool encrypted = !bytes.empty() && (bytes[0] & 4) != 0;
  run_sealed(bytes, encrypted);
}

}  // namespace lockstep::fuzz
