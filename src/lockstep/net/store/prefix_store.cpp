#include "lockstep/net/store/prefix_store.h"

#include <utility>

namespace lockstep {

PrefixStore::PrefixStore(std::shared_ptr<Store> store, std::string prefix)
    : store_(std::move(store)), prefix_(std::move(prefix) + "/") {}

void PrefixStore::set(const std::string& key, const std::string& value) { store_->set(name(key), value); }

std::string PrefixStore::get(const std::string& key, Deadline deadline) { return store_->get(name(key), deadline); }

std::optional<std::string> PrefixStore::try_get(const std::string& key) { return store_->try_get(name(key)); }

std::int64_t PrefixStore::add(const std::string& key, std::int64_t delta) { return store_->add(name(key), delta); }

std::string PrefixStore::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  return store_->compare_set(name(key), expected, desired);
}

bool PrefixStore::delete_key(const std::string& key) { return store_->delete_key(name(key)); }

std::vector<std::string> PrefixStore::names(const std::vector<std::string>& keys) const {
  std::vector<std::string> all;
  all.reserve(keys.size());
  for (const std::string& key : keys) all.push_back(name(key));
  return all;
}

std::vector<std::optional<std::string>> PrefixStore::try_get_all(const std::vector<std::string>& keys) {
  return store_->try_get_all(names(keys));
}

void PrefixStore::wait(const std::vector<std::string>& keys, Deadline deadline) { store_->wait(names(keys), deadline); }

std::int64_t PrefixStore::num_keys() { return store_->num_keys(); }

std::vector<LostRank> PrefixStore::lost_ranks() { return store_->lost_ranks(); }

}  // namespace lockstep
