#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/hub/hub_file_download.h"
#include "lockstep/hub/hub_settings.h"

namespace lockstep {

/// Which model to fetch from the Hub, and where to.
struct ModelDownload {
  std::string id;                 ///< NAME or OWNER/NAME
  std::string revision = "main";  ///< a branch, a tag or a commit
  std::string folder;             ///< is created if it does not exist
  bool replaces_files = false;    ///< also files of these names that hold something else
  /// Called with the path of config.json before the weights are fetched; it may throw. Default: nothing is asked.
  std::function<void(const std::string& config_path)> accept;
  std::function<void(const std::string& line)> report;  ///< gets one line for each file, when it is done
  HubProgress progress;
};

struct DownloadedModel {
  std::string commit;
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  bool is_pickled = false;  ///< its weights are PyTorch's pytorch_model.bin, because the model has no safetensors
};

/// Fetches what training, evaluation and prediction need of a model: config.json, the tokenizer's files, how
/// sentence-transformers makes vectors, and the weights in safetensors (or, if there are none, pytorch_model.bin).
/// Files that are there already are kept, files of huggingface_hub's cache are copied, and what an interrupted download
/// left is continued. Each file is compared with the SHA-256 that the Hub has of it (small files: with git's SHA-1)
/// before it gets its name.
/// @throws UsageError  if `id` is not a model's name. @throws Error  in words: as ask_hub and fetch_hub_file; if the
/// model has no config.json or no weights; if a file of the same name holds something else; if the disk has too little
/// room
DownloadedModel download_model(const ModelDownload& download, const HubSettings& settings);

}  // namespace lockstep
