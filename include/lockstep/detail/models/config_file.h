#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/detail/models/activation.h"

namespace lockstep {

/// The settings of a `config.json`, read with their types and ranges checked. Every error names file and field. An
/// absent key and a null value both mean the default, as in Hugging Face's library.
class ConfigFile {
 public:
  static constexpr std::int64_t kMaxSize = 1 << 30;  ///< largest dimension that a file may ask for
  static constexpr std::int64_t kMaxLayers = 4096;   ///< largest number of layers that a file may ask for

  /// @param path  a `config.json`, or the folder that holds one
  /// @throws Error  if the file does not exist or is not a JSON object
  explicit ConfigFile(const std::string& path);

  const std::string& path() const { return path_; }
  bool has(const std::string& key) const;

  /// Each function returns the value of the first of `keys` that is present (newer name, older name), else `fallback`.
  /// @throws Error  if the value has another type or lies outside [min, max]
  using Keys = std::vector<std::string>;
  std::int64_t integer(const Keys& keys, std::int64_t fallback, std::int64_t min, std::int64_t max) const;
  double number(const Keys& keys, double fallback, double min, double max) const;
  bool boolean(const Keys& keys, bool fallback) const;
  std::string text(const Keys& keys, const std::string& fallback) const;

  /// The names under "id2label" in the order of their ids, or `num_labels` names LABEL_0…; empty if the file has
  /// neither key. Two labels may share a name, as in Hugging Face's configurations.
  /// @throws Error  if the ids are not 0 to n-1
  std::vector<std::string> labels() const;

  /// Refuses a setting that would change the result and is not supported.
  /// @param supported  its supported values, as JSON texts ("false", "\"absolute\""); an absent or null value always is
  void require(const std::string& key, const std::vector<std::string>& supported) const;
  [[noreturn]] void refuse(const std::string& key, const std::string& problem, const std::string& fix) const;

  const nlohmann::json& json() const { return *json_; }

 private:
  const nlohmann::json* find(const Keys& keys, std::string& found) const;

  std::string path_;
  std::shared_ptr<const nlohmann::json> json_;
};

/// The activation that `key` names. @throws Error  if it is unknown; the error lists the known names
Activation read_activation(const ConfigFile& file, const std::string& key, Activation fallback);

}  // namespace lockstep
