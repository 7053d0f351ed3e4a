#include "lockstep/comm/shm/announced_operation.h"

namespace lockstep::shm {

Announcement announce(const Operation& operation) {
  const Fingerprint& fingerprint = operation.fingerprint;
  return pack({static_cast<std::uint8_t>(fingerprint.kind), static_cast<std::uint8_t>(fingerprint.op),
               static_cast<std::uint8_t>(fingerprint.dtype), fingerprint.root, fingerprint.count, fingerprint.sequence,
               operation.enclosing_mark});
}

// Another process wrote these values: only valid ones are converted to enums.
std::string describe(const Announcement& announcement) {
  const Announced parts = unpack(announcement);
  if (parts.kind > static_cast<std::uint8_t>(OperationKind::Barrier) ||
      parts.op > static_cast<std::uint8_t>(ReduceOp::Product) ||
      parts.dtype >= static_cast<std::uint8_t>(c10::ScalarType::NumOptions)) {
    return "an unknown operation";
  }
  Fingerprint fingerprint;
  fingerprint.kind = static_cast<OperationKind>(parts.kind);
  fingerprint.op = static_cast<ReduceOp>(parts.op);
  fingerprint.dtype = static_cast<c10::ScalarType>(parts.dtype);
  fingerprint.root = parts.root;
  fingerprint.count = parts.count;
  fingerprint.sequence = parts.sequence;
  return fingerprint.describe();
}

}  // namespace lockstep::shm
