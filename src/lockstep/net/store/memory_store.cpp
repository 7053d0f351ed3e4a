#include "lockstep/net/store/memory_store.h"

#include <algorithm>
#include <iterator>

#include "lockstep/base/processor/topology.h"
#include "lockstep/net/store_errors.h"

namespace lockstep {

void MemoryStore::set(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  table_.set(key, value);
  changed_.notify_all();
}

std::string MemoryStore::get(const std::string& key, Deadline deadline) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (const std::string* value = table_.find(key)) return *value;
    if (deadline.passed()) throw missing_keys_error({key}, "store of this process", lost_);
    changed_.wait_for(lock, deadline.remaining());
  }
}

std::optional<std::string> MemoryStore::try_get(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const std::string* value = table_.find(key);
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

std::vector<std::optional<std::string>> MemoryStore::try_get_all(const std::vector<std::string>& keys) {
  std::vector<std::optional<std::string>> values;
  const std::lock_guard lock(mutex_);
  for (const std::string& key : keys) {
    const std::string* value = table_.find(key);
    values.push_back(value != nullptr ? std::optional(*value) : std::nullopt);
  }
  return values;
}

std::int64_t MemoryStore::add(const std::string& key, std::int64_t delta) {
  const std::lock_guard lock(mutex_);
  const std::int64_t sum = table_.add(key, delta);
  changed_.notify_all();
  return sum;
}

std::string MemoryStore::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  const std::lock_guard lock(mutex_);
  std::string value = table_.compare_set(key, expected, desired);
  changed_.notify_all();
  return value;
}

bool MemoryStore::delete_key(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return table_.erase(key);
}

void MemoryStore::wait(const std::vector<std::string>& keys, Deadline deadline) {
  std::unique_lock lock(mutex_);
  for (;;) {
    std::vector<std::string> missing;
    std::copy_if(keys.begin(), keys.end(), std::back_inserter(missing),
                 [this](const std::string& key) { return table_.find(key) == nullptr; });
    if (missing.empty()) return;
    if (deadline.passed()) throw missing_keys_error(missing, "store of this process", lost_);
    changed_.wait_for(lock, deadline.remaining());
  }
}

std::int64_t MemoryStore::num_keys() {
  const std::lock_guard lock(mutex_);
  return table_.size();
}

std::vector<LostRank> MemoryStore::lost_ranks() {
  const std::lock_guard lock(mutex_);
  return lost_;
}

void MemoryStore::mark_lost(int rank, const std::string& cause) {
  const std::lock_guard lock(mutex_);
  const bool known = std::any_of(lost_.begin(), lost_.end(), [rank](const LostRank& l) { return l.rank == rank; });
  if (!known) lost_.push_back({rank, host_name(), cause});
}

}  // namespace lockstep
