#include "lockstep/parallel/sibling_group.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

struct Sibling {
  std::weak_ptr<Communicator> of;
  // Kept here and not by its users: every rank must agree on whether it already exists.
  std::shared_ptr<Communicator> group;
};

class Siblings {
 public:
  std::shared_ptr<Communicator> find(const std::shared_ptr<Communicator>& of) {
    std::vector<std::shared_ptr<Communicator>> ended;  // destroyed without holding the lock
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto entry = siblings_.begin(); entry != siblings_.end();) {
      if (entry->second.of.expired()) {
        ended.push_back(std::move(entry->second.group));
        entry = siblings_.erase(entry);
      } else {
        ++entry;
      }
    }
    const auto found = siblings_.find(of.get());
    return found == siblings_.end() ? nullptr : found->second.group;
  }
  bool any() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::any_of(siblings_.begin(), siblings_.end(),
                       [](const auto& entry) { return !entry.second.of.expired(); });
  }
  void add(const std::shared_ptr<Communicator>& of, std::shared_ptr<Communicator> group) {
    const std::lock_guard<std::mutex> lock(mutex_);
    siblings_[of.get()] = {of, std::move(group)};
  }

 private:
  std::mutex mutex_;
  std::map<const Communicator*, Sibling> siblings_;
};

// All ranks that are threads of this process use it; each rank finds its own.
Siblings& siblings() {
  static Siblings all;
  return all;
}

}  // namespace

std::shared_ptr<Communicator> sibling_group(const std::shared_ptr<Communicator>& group) {
  if (auto found = siblings().find(group)) return found;
  std::shared_ptr<Communicator> made = group->split(0, group->rank());
  siblings().add(group, made);
  return made;
}

bool has_sibling_groups() { return siblings().any(); }

}  // namespace lockstep
