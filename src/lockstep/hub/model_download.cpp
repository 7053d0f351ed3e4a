#include "lockstep/hub/model_download.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/create_folders.h"
#include "lockstep/base/files/json_file.h"
#include "lockstep/base/text/printable.h"
#include "lockstep/base/text/size_text.h"
#include "lockstep/hub/hub_cache.h"
#include "lockstep/hub/hub_checksum.h"
#include "lockstep/hub/whole_file.h"

namespace lockstep {
namespace {

constexpr const char* kConfig = "config.json";
// The tokenizer's, and those of sentence-transformers: without them the model's vectors would be others.
constexpr const char* kFilesIfThere[] = {
    "tokenizer_config.json",     "tokenizer.json",       "vocab.txt",         "vocab.json",
    "special_tokens_map.json",   "merges.txt",           "added_tokens.json", "modules.json",
    "sentence_bert_config.json", "1_Pooling/config.json"};
// In the order of preference: a single file, or an index of several.
constexpr const char* kWeights[] = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                                    "pytorch_model.bin.index.json"};

using Files = std::vector<const HubFile*>;

class Download {
 public:
  Download(const ModelDownload& wanted, const HubSettings& settings)
      : wanted_(wanted),
        settings_(settings),
        model_(settings.is_offline ? cached_model(settings, wanted.id, wanted.revision)
                                   : ask_hub(settings, wanted.id, wanted.revision)) {}

  DownloadedModel run() {
    const std::string weights = name_of_weights();
    create_folders(wanted_.folder);
    get_all({require(kConfig)});
    if (wanted_.accept) wanted_.accept(wanted_.folder + "/" + kConfig);
    get_all(files_if_there());
    get_all({require(weights)});
    if (weights.find(".index.json") != std::string::npos) get_all(shards_of(weights));
    done_.commit = model_.commit;
    done_.is_pickled = weights.find("pytorch_model") == 0;
    return done_;
  }

 private:
  std::string where() const { return fmt::format("{}/{} at {}", settings_.endpoint, model_.id, model_.commit); }

  const HubFile* require(const std::string& name) const {
    if (const HubFile* file = model_.find(name)) return file;
    throw Error(
        fmt::format("{} has no {}", model_.id, printable(name)), where(),
        "choose a model of Hugging Face's transformers; others store their weights in formats that are not read");
  }

  std::string name_of_weights() const {
    for (const char* name : kWeights) {
      if (model_.find(name) != nullptr) return name;
    }
    throw Error(model_.id + " has no weights that PyTorch saved", where(),
                "choose a model with model.safetensors, or a --revision that has it");
  }

  Files files_if_there() const {
    Files files;
    for (const char* name : kFilesIfThere) {
      if (const HubFile* file = model_.find(name)) files.push_back(file);
    }
    return files;
  }

  Files shards_of(const std::string& index_name) const {
    constexpr std::uint64_t kMostIndexBytes = std::uint64_t{256} << 20;
    const std::string path = wanted_.folder + "/" + index_name;
    const auto index = read_json_object(path, kMostIndexBytes);
    const auto map = index->find("weight_map");
    if (map == index->end() || !map->is_object()) {
      throw Error("the index has no weight_map", path, "choose another --revision: this one is damaged on the Hub");
    }
    std::set<std::string> names;
    for (const auto& item : map->items()) {
      const std::string name = item.value().is_string() ? item.value().get<std::string>() : "";
      if (name.empty() || name.find('/') != std::string::npos) {
        throw Error("\"" + printable(name) + "\" is not a file name beside the index", path,
                    "choose another --revision: this one is damaged on the Hub");
      }
      names.insert(name);
    }
    Files files;
    for (const std::string& name : names) files.push_back(require(name));
    return files;
  }

  bool is_there(const HubFile& file) const {
    const std::string path = wanted_.folder + "/" + file.name;
    if (!std::filesystem::exists(path)) return false;
    const std::string difference = difference_from(file, path);
    if (difference.empty()) return true;
    if (wanted_.replaces_files) return false;
    throw Error(fmt::format("the file {} exists and differs from the one of {}: {}", file.name, model_.id, difference),
                path, "give another folder with --output, or replace it with --force");
  }

  void require_room(const Files& files) const {
    std::int64_t missing = 0;
    for (const HubFile* file : files)
      missing += std::max<std::int64_t>(0, file->bytes - fetched_bytes(*file, wanted_.folder));
    std::error_code unknown;
    const auto room = std::filesystem::space(wanted_.folder, unknown).available;
    if (unknown || static_cast<std::uint64_t>(missing) <= room) return;
    throw Error(fmt::format("{} of {} are still to be downloaded, but the disk has only {} left",
                            size_text(static_cast<std::uint64_t>(missing)), model_.id, size_text(room)),
                wanted_.folder, "free space there, or name a folder on another disk with --output");
  }

  bool copy_from_cache(const HubFile& file) const {
    const auto path = cached_file(settings_, model_, file.name);
    if (!path || !difference_from(file, *path).empty()) return false;
    const WholeFile content(*path);
    write_file_atomically(wanted_.folder + "/" + file.name, content.view());
    return true;
  }

  void get_all(const Files& files) {
    Files absent;
    for (const HubFile* file : files) {
      if (is_there(*file)) {
        count(*file, "already there");
      } else {
        absent.push_back(file);
      }
    }
    require_room(absent);
    for (const HubFile* file : absent) {
      create_folders(std::filesystem::path(wanted_.folder + "/" + file->name).parent_path());
      const bool is_cached = copy_from_cache(*file);
      if (!is_cached) fetch(*file);
      count(*file, is_cached ? "from the cache" : "downloaded");
    }
  }

  void fetch(const HubFile& file) const {
    if (settings_.is_offline) {
      throw Error(fmt::format("HF_HUB_OFFLINE forbids downloading {}, and the cached file is damaged", file.name),
                  settings_.cache, "unset HF_HUB_OFFLINE");
    }
    fetch_hub_file(
        settings_, model_, file, wanted_.folder, wanted_.revision,
        wanted_.progress ? wanted_.progress : [](const HubFile&, std::int64_t) {});
  }

  void count(const HubFile& file, const char* how) {
    ++done_.files;
    done_.bytes += file.bytes;
    if (!wanted_.report) return;
    const char* proof = !file.sha256.empty()     ? ", SHA-256 as on the Hub"
                        : !file.git_sha1.empty() ? ", content as on the Hub"
                                                 : "";
    wanted_.report(fmt::format("{}/{}: {}, {}{}", wanted_.folder, file.name, how,
                               size_text(static_cast<std::uint64_t>(file.bytes)), proof));
  }

  const ModelDownload& wanted_;
  const HubSettings& settings_;
  HubModel model_;
  DownloadedModel done_;
};

}  // namespace

DownloadedModel download_model(const ModelDownload& download, const HubSettings& settings) {
  require_model_id(download.id);
  return Download(download, settings).run();
}

}  // namespace lockstep
