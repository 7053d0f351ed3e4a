#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/net/peers/job_key.h"
#include "lockstep/net/store.h"

namespace lockstep {

/// Another store under a prefix, so that groups and generations of a job do not see each other's keys.
class PrefixStore : public Store, public KeyedStore {
 public:
  /// Key `k` here is key `prefix + "/" + k` of `store`.
  PrefixStore(std::shared_ptr<Store> store, std::string prefix);

  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, Deadline deadline) override;
  std::optional<std::string> try_get(const std::string& key) override;
  std::vector<std::optional<std::string>> try_get_all(const std::vector<std::string>& keys) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override;
  bool delete_key(const std::string& key) override;
  void wait(const std::vector<std::string>& keys, Deadline deadline) override;
  /// Counts the keys of the whole store, under any prefix.
  std::int64_t num_keys() override;
  std::vector<LostRank> lost_ranks() override;
  std::string job_key() const override { return lockstep::job_key(*store_); }

  const std::shared_ptr<Store>& underlying() const { return store_; }

 private:
  std::string name(const std::string& key) const { return prefix_ + key; }
  std::vector<std::string> names(const std::vector<std::string>& keys) const;

  std::shared_ptr<Store> store_;
  std::string prefix_;
};

}  // namespace lockstep
