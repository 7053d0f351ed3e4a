#include "lockstep/data/text/vocabulary.h"

#include <algorithm>
#include <cstdint>

#include "lockstep/base/error.h"
#include "lockstep/data/text/files/json_file.h"
#include "lockstep/data/text/files/text_lines.h"

namespace lockstep {
namespace {

/// Numbers may have gaps, as with added tokens, but a single huge number must not make a huge table.
constexpr std::int64_t kMostUnusedIds = 1 << 20;

Error conflict(const Vocabulary::Entry& entry, const std::string& what) {
  return Error(what, entry.where, "every token and every number may occur only once; download the vocabulary again");
}

}  // namespace

Vocabulary::Vocabulary(std::vector<Entry> entries) {
  TokenId highest = -1;
  for (const Entry& entry : entries) {
    if (entry.id < 0) throw conflict(entry, "token '" + entry.token + "' has the number " + std::to_string(entry.id));
    highest = std::max(highest, entry.id);
  }
  if (highest > static_cast<std::int64_t>(entries.size()) + kMostUnusedIds) {
    throw Error("the highest number is " + std::to_string(highest) + ", but there are only " +
                    std::to_string(entries.size()) + " tokens",
                entries.front().where, "number the tokens from 0 without large gaps");
  }
  tokens_.resize(static_cast<std::size_t>(highest) + 1);
  present_.resize(tokens_.size());
  for (Entry& entry : entries) {
    const auto at = static_cast<std::size_t>(entry.id);
    if (present_[at]) {
      throw conflict(entry, "tokens '" + tokens_[at] + "' and '" + entry.token + "' both have the number " +
                                std::to_string(entry.id));
    }
    present_[at] = true;
    tokens_[at] = std::move(entry.token);
  }
  index();
  if (ids_.size() != entries.size()) {
    for (const Entry& entry : entries) {
      const std::string& token = tokens_[static_cast<std::size_t>(entry.id)];
      const TokenId first = ids_.at(token);
      if (first == entry.id) continue;
      throw conflict(entry, "token '" + token + "' occurs twice, with the numbers " + std::to_string(first) + " and " +
                                std::to_string(entry.id));
    }
  }
}

Vocabulary::Vocabulary(const Vocabulary& other) : tokens_(other.tokens_), present_(other.present_) { index(); }

Vocabulary& Vocabulary::operator=(const Vocabulary& other) {
  if (this != &other) *this = Vocabulary(other);
  return *this;
}

void Vocabulary::index() {
  ids_.reserve(tokens_.size());
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (present_[i]) ids_.emplace(tokens_[i], static_cast<TokenId>(i));
  }
}

Vocabulary Vocabulary::from_txt(const std::string& path) {
  std::vector<Entry> entries;
  TokenId id = 0;
  text::for_each_line(path, [&](std::string_view line, const std::string& where) {
    if (!line.empty()) entries.push_back({std::string(line), id, where});
    ++id;
  });
  if (entries.empty()) throw Error("the vocabulary has no token", path, "download vocab.txt again");
  return Vocabulary(std::move(entries));
}

Vocabulary Vocabulary::from_json(const std::string& path) {
  const nlohmann::json root = text::read_json_file(path);
  if (!root.is_object()) throw Error("the vocabulary is not a JSON object", path, "expected {\"token\": number, ...}");
  std::vector<Entry> entries;
  entries.reserve(root.size());
  for (const auto& item : root.items()) {
    entries.push_back({item.key(), text::json_id(item.value(), path + ": \"" + item.key() + "\""), path});
  }
  if (entries.empty()) throw Error("the vocabulary has no token", path, "download it again");
  return Vocabulary(std::move(entries));
}

std::optional<TokenId> Vocabulary::find(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

}  // namespace lockstep
