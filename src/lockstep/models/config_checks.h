#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/detail/models/sequence_head.h"

namespace lockstep {

/// The checks that configurations of text models share. Each throws an Error that names the field.
class ConfigChecks {
 public:
  /// A field's name in config.json, and its value.
  struct Field {
    const char* name;
    std::int64_t value;
  };

  /// @param where  the file or class that the configuration is of
  explicit ConfigChecks(std::string where) : where_(std::move(where)) {}

  void heads_divide(const Field& width, const Field& heads) const;
  void vocabulary(std::int64_t vocab_size, const std::optional<std::int64_t>& pad_token_id) const;
  /// @param fix  what to give instead
  void positive(const Field& field, const char* fix = "give a positive size") const;
  void layers(const Field& count) const;
  void labels(const SequenceHead& head) const;
  [[noreturn]] void refuse(const char* field, const std::string& problem, const std::string& fix) const;

 private:
  std::string where_;
};

}  // namespace lockstep
