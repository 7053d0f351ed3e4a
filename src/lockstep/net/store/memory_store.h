#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/net/server/key_table.h"
#include "lockstep/net/store.h"

namespace lockstep {

/// A store inside one process, for ranks that are threads of it.
class MemoryStore : public Store {
 public:
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, Deadline deadline) override;
  std::optional<std::string> try_get(const std::string& key) override;
  std::vector<std::optional<std::string>> try_get_all(const std::vector<std::string>& keys) override;
  std::int64_t add(const std::string& key, std::int64_t delta) override;
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired) override;
  bool delete_key(const std::string& key) override;
  void wait(const std::vector<std::string>& keys, Deadline deadline) override;
  std::int64_t num_keys() override;
  std::vector<LostRank> lost_ranks() override;

  /// Puts `rank` on the list of lost ranks, once. A thread has no connection whose end would show that it is gone, so
  /// the code that started the thread reports its end here.
  void mark_lost(int rank, const std::string& cause);

 private:
  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  KeyTable table_{"store of this process"};
  std::vector<LostRank> lost_;
};

}  // namespace lockstep
