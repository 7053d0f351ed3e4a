// The requests of a store's clients about keys and values.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/net/server/store_service.h"
#include "lockstep/net/store/answer_fields.h"

namespace lockstep {

void StoreService::handle_set(RequestId id, WireReader& fields) {
  const std::string key = fields.text(KeyTable::kMaxKeyBytes);
  std::string value = fields.text(KeyTable::kMaxValueBytes);
  fields.end();
  table_.set(key, std::move(value));
  answer(id, StoreStatus::Ok);
  key_was_set(key);
}

void StoreService::handle_try_get(RequestId id, WireReader& fields) {
  const std::string key = fields.text(KeyTable::kMaxKeyBytes);
  fields.end();
  answer(id, StoreStatus::Ok, optional_field(table_.find(key)));
}

// The client requests again the values that would make the answer too long.
void StoreService::handle_try_get_all(RequestId id, WireReader& fields) {
  const std::uint32_t count = fields.u32();
  if (count > kMaxKeysPerWait) throw WireError(fmt::format("asks for {} keys, more than {}", count, kMaxKeysPerWait));
  std::string values;
  std::uint32_t answered = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string key = fields.text(KeyTable::kMaxKeyBytes);
    const std::string* value = table_.find(key);
    const bool fits = i == 0 || values.size() + (value != nullptr ? value->size() : 0) <= kMostAnsweredAtOnceBytes;
    if (answered != i || !fits) continue;  // the request must still be read to its end
    values += optional_field(value);
    ++answered;
  }
  fields.end();
  WireWriter head;
  head.u32(answered);
  answer(id, StoreStatus::Ok, head.bytes() + values);
}

void StoreService::handle_add(RequestId id, WireReader& fields) {
  const std::string key = fields.text(KeyTable::kMaxKeyBytes);
  const std::int64_t delta = fields.i64();
  fields.end();
  answer(id, StoreStatus::Ok, number_field(table_.add(key, delta)));
  key_was_set(key);
}

void StoreService::handle_compare_set(RequestId id, WireReader& fields) {
  const std::string key = fields.text(KeyTable::kMaxKeyBytes);
  const std::string expected = fields.text(KeyTable::kMaxValueBytes);
  const std::string desired = fields.text(KeyTable::kMaxValueBytes);
  fields.end();
  answer(id, StoreStatus::Ok, text_field(table_.compare_set(key, expected, desired)));
  key_was_set(key);
}

void StoreService::handle_delete(RequestId id, WireReader& fields) {
  const std::string key = fields.text(KeyTable::kMaxKeyBytes);
  fields.end();
  answer(id, StoreStatus::Ok, flag_field(table_.erase(key)));
}

void StoreService::handle_get(RequestId id, WireReader& fields) {
  const std::string key = fields.text(KeyTable::kMaxKeyBytes);
  fields.end();
  if (const std::string* value = table_.find(key)) return answer(id, StoreStatus::Ok, text_field(*value));
  add_waiter(id, {key}, true);
}

void StoreService::handle_wait(RequestId id, WireReader& fields) {
  const std::uint32_t count = fields.u32();
  if (count > kMaxKeysPerWait) throw WireError(fmt::format("waits for {} keys, more than {}", count, kMaxKeysPerWait));
  std::vector<std::string> keys;
  for (std::uint32_t i = 0; i < count; ++i) keys.push_back(fields.text(KeyTable::kMaxKeyBytes));
  fields.end();
  const bool all_set = std::all_of(keys.begin(), keys.end(), [this](const auto& key) { return table_.find(key); });
  if (all_set) return answer(id, StoreStatus::Ok);
  add_waiter(id, std::move(keys), false);
}

void StoreService::add_waiter(RequestId id, std::vector<std::string> keys, bool wants_value) {
  if (waiters_.count(id.connection) >= kMaxWaitsPerClient || waiters_.contains(id)) {
    throw WireError(fmt::format("has more than {} waits at a time, or used a number twice", kMaxWaitsPerClient));
  }
  waiters_.add(id, std::move(keys), wants_value, table_);
}

void StoreService::key_was_set(const std::string& key) {
  const std::string* value = table_.find(key);
  if (value == nullptr) return;
  for (const Waiters::Complete& complete : waiters_.on_set(key, table_)) {
    answer(complete.id, StoreStatus::Ok, complete.wants_value ? text_field(*value) : std::string());
  }
}

}  // namespace lockstep
