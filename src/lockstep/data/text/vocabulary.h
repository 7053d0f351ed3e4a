#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/detail/data/text/token_id.h"

namespace lockstep {

/// The tokens of a model and their numbers. Immutable after construction; thread-safe.
class Vocabulary {
 public:
  /// A token with its number, and where it was declared (`FILE:LINE` or a path in JSON) for errors.
  struct Entry {
    std::string token;
    TokenId id = 0;
    std::string where;
  };

  Vocabulary() = default;
  /// @throws Error  if a token or a number is repeated, a number is negative, or numbers are so far apart that the
  /// table would be mostly empty
  explicit Vocabulary(std::vector<Entry> entries);
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;
  Vocabulary(const Vocabulary& other);
  Vocabulary& operator=(const Vocabulary& other);

  /// Reads `vocab.txt`: one token per line; its number is the line's, counted from 0. An empty line uses up its number
  /// and names no token.
  /// @throws Error  with file and line, for a repeated token, invalid UTF-8, or a NUL
  static Vocabulary from_txt(const std::string& path);

  /// Reads `vocab.json` or `encoder.json`: one JSON object, token to number.
  /// @throws Error  with file and line if it is not such JSON; as the constructor
  static Vocabulary from_json(const std::string& path);

  std::optional<TokenId> find(std::string_view token) const;
  /// Whether `id` is the number of a token.
  bool contains(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < present_.size() && present_[id]; }
  /// The token with number `id`, which must be in the vocabulary.
  const std::string& token(TokenId id) const { return tokens_[static_cast<std::size_t>(id)]; }
  /// How many tokens there are.
  std::size_t size() const { return ids_.size(); }
  /// One more than the highest number.
  TokenId id_limit() const { return static_cast<TokenId>(tokens_.size()); }

 private:
  void index();

  std::vector<std::string> tokens_;  // by number
  std::vector<bool> present_;        // by number
  std::unordered_map<std::string_view, TokenId> ids_;
};

}  // namespace lockstep
