#include "lockstep/comm/communicator/reduced_elements.h"

#include <atomic>

namespace lockstep {
namespace {

std::atomic<std::int64_t> reduced_so_far{0};
thread_local int uncounted = 0;  // how many UncountedReductions exist

}  // namespace

std::int64_t reduced_elements() { return reduced_so_far.load(std::memory_order_relaxed); }

void note_reduced_elements(std::int64_t count) {
  if (uncounted == 0) reduced_so_far.fetch_add(count, std::memory_order_relaxed);
}

UncountedReductions::UncountedReductions() { ++uncounted; }

UncountedReductions::~UncountedReductions() { --uncounted; }

}  // namespace lockstep
