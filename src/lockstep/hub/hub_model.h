#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/hub/hub_settings.h"

namespace lockstep {

/// A file of a model on the Hub, and what proves that it came as it is there.
struct HubFile {
  std::string name;
  std::int64_t bytes = 0;
  std::string sha256;    ///< of a large file; empty for others
  std::string git_sha1;  ///< of a small file: git's name of it, the SHA-1 of "blob BYTES\0" and the content
};

/// A model on the Hub at one commit.
struct HubModel {
  std::string id;      ///< "bert-base-cased", "google/electra-small-discriminator"
  std::string commit;  ///< 40 hexadecimal digits
  std::vector<HubFile> files;

  /// @return  null if there is no such file
  const HubFile* find(const std::string& name) const;
};

/// Refuses what is not a model's name on the Hub: NAME or OWNER/NAME of letters, digits, '-', '_' and '.'.
/// @throws UsageError  with the rule
void require_model_id(const std::string& id);

/// Asks the Hub which files the model `id` has at `revision`, a branch, a tag or a commit.
/// @throws Error  in words: no such model or revision, a private or a gated model, a token that is not accepted, no
/// network; or if the Hub's answer is not understood
HubModel ask_hub(const HubSettings& settings, const std::string& id, const std::string& revision);

/// The address of a file's content.
std::string hub_file_url(const HubSettings& settings, const HubModel& model, const std::string& name);

}  // namespace lockstep
