#include "lockstep/comm/communicator/enclosing_operation.h"

namespace lockstep {
namespace {

thread_local std::uint32_t mark_of_this_thread = 0;

}  // namespace

EnclosingOperation::EnclosingOperation(const Fingerprint& whole) {
  std::uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a, one word at a time
  for (const std::uint64_t word : {static_cast<std::uint64_t>(whole.kind), static_cast<std::uint64_t>(whole.op),
                                   static_cast<std::uint64_t>(whole.dtype), static_cast<std::uint64_t>(whole.root),
                                   static_cast<std::uint64_t>(whole.count), whole.sequence}) {
    hash = (hash ^ word) * 0x100000001b3ull;
    hash ^= hash >> 29;
  }
  mark_of_this_thread = static_cast<std::uint32_t>(hash >> 16) | 1;
}

EnclosingOperation::~EnclosingOperation() { mark_of_this_thread = 0; }

std::uint32_t EnclosingOperation::mark() { return mark_of_this_thread; }

}  // namespace lockstep
