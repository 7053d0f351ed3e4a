#include "lockstep/base/group_place.h"

#include <atomic>
#include <mutex>
#include <utility>

namespace lockstep {
namespace {

struct ProcessPlace {
  std::mutex mutex;
  std::optional<GroupPlace> place;
};

ProcessPlace& process_place() {
  static ProcessPlace instance;
  return instance;
}

thread_local std::optional<GroupPlace> place_of_thread;
std::atomic<int> threads_with_place{0};

}  // namespace

std::optional<GroupPlace> default_place() {
  if (place_of_thread || threads_with_place > 0) return place_of_thread;
  ProcessPlace& process = process_place();
  const std::lock_guard<std::mutex> lock(process.mutex);
  return process.place;
}

void set_default_place(std::optional<GroupPlace> place) {
  ProcessPlace& process = process_place();
  const std::lock_guard<std::mutex> lock(process.mutex);
  process.place = place;
}

ThreadPlace::ThreadPlace(GroupPlace place) : before_(std::exchange(place_of_thread, place)) { ++threads_with_place; }

ThreadPlace::~ThreadPlace() {
  place_of_thread = before_;
  --threads_with_place;
}

}  // namespace lockstep
