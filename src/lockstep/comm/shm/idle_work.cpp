#include "lockstep/comm/shm/idle_work.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace lockstep::shm {
namespace {

struct AllIdleWork {
  std::mutex mutex;
  std::vector<const IdleWork*> living;
};

AllIdleWork& all_idle_work() {
  static auto* const all = new AllIdleWork;  // never destroyed: a group may live until the process ends
  return *all;
}

}  // namespace

IdleWork::IdleWork(std::function<void()> body) : body_(std::move(body)) {
  const std::lock_guard<std::mutex> lock(all_idle_work().mutex);
  all_idle_work().living.push_back(this);
}

IdleWork::~IdleWork() {
  const std::lock_guard<std::mutex> lock(all_idle_work().mutex);
  auto& living = all_idle_work().living;
  living.erase(std::remove(living.begin(), living.end(), this), living.end());
}

void IdleWork::run_each() {
  const std::unique_lock<std::mutex> lock(all_idle_work().mutex, std::try_to_lock);
  if (!lock.owns_lock()) return;
  for (const IdleWork* work : all_idle_work().living) {
    if (work->home_.is_here()) work->body_();
  }
}

}  // namespace lockstep::shm
