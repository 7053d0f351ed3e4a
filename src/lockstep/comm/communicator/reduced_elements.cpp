#include "lockstep/comm/communicator/reduced_elements.h"

#include <atomic>

namespace lockstep {
namespace {

std::atomic<std::int64_t> reduced_so_far{0};

}  // namespace

std::int64_t reduced_elements() { return reduced_so_far.load(std::memory_order_relaxed); }

void note_reduced_elements(std::int64_t count) { reduced_so_far.fetch_add(count, std::memory_order_relaxed); }

}  // namespace lockstep
