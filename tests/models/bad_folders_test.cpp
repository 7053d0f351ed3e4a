// Tests folders of models that are damaged: each is refused with the reason.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/torch.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/models/bert_heads.h"
#include "lockstep/safetensors/safetensors.h"
#include "tests/models/small_models.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

struct BadFolder {
  const char* name;
  void (*damage)(const std::string& folder);
  const char* says;
};

class BadFolders : public ::testing::TestWithParam<BadFolder> {};

TEST_P(BadFolders, AreRefusedWithTheReason) {
  const TemporaryFolder folder;
  BertForMaskedLM(small_bert())->save_pretrained(folder.path(), 1000);
  GetParam().damage(folder.path());
  try {
    BertForMaskedLMImpl::from_pretrained(folder.path());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().says), std::string::npos) << error.what();
  }
}

void set_shard(const std::string& folder, const std::string& shard) {
  const std::string path = folder + "/model.safetensors.index.json";
  auto index = nlohmann::json::parse(read_file(path));
  index["weight_map"]["cls.predictions.bias"] = shard;
  write_file_atomically(path, index.dump());
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadFolders,
    ::testing::Values(
        BadFolder{"no_config", [](const std::string& f) { std::filesystem::remove(f + "/config.json"); },
                  "config.json"},
        BadFolder{"sizes_beyond_all_memory",
                  [](const std::string& f) {
                    write_file_atomically(f + "/config.json",
                                          R"({"model_type":"bert","hidden_size":1073741824,"num_attention_heads":1})");
                  },
                  "a model of these sizes has 5.53e+19 parameters"},
        BadFolder{"config_is_a_pipe",
                  [](const std::string& f) {
                    std::filesystem::remove(f + "/config.json");
                    ::mkfifo((f + "/config.json").c_str(), 0600);
                  },
                  "not a regular file"},
        BadFolder{"no_index",
                  [](const std::string& f) { std::filesystem::remove(f + "/model.safetensors.index.json"); },
                  "no weights in"},
        BadFolder{"pickled_weights_only",
                  [](const std::string& f) {
                    std::filesystem::remove(f + "/model.safetensors.index.json");
                    write_file_atomically(f + "/pytorch_model.bin", "x");
                  },
                  "pytorch_model.bin"},
        BadFolder{"shard_missing",
                  [](const std::string& f) {
                    for (const auto& item : std::filesystem::directory_iterator(f)) {
                      if (item.path().filename().string().rfind("model-00002", 0) == 0) {
                        std::filesystem::remove(item.path());
                        break;
                      }
                    }
                  },
                  "model-00002"},
        BadFolder{"shard_elsewhere", [](const std::string& f) { set_shard(f, "../../etc/passwd"); },
                  "no file name beside the index"},
        BadFolder{"tensor_in_another_shard",
                  [](const std::string& f) {
                    write_safetensors(f + "/other.safetensors", {{"x", torch::zeros({1})}});
                    set_shard(f, "other.safetensors");
                  },
                  "\"cls.predictions.bias\" is not in other.safetensors"},
        BadFolder{"index_is_a_list",
                  [](const std::string& f) { write_file_atomically(f + "/model.safetensors.index.json", "[]"); },
                  "not a JSON object"},
        BadFolder{"index_without_map",
                  [](const std::string& f) { write_file_atomically(f + "/model.safetensors.index.json", "{}"); },
                  "no weight_map"},
        BadFolder{"index_nested_deeply",
                  [](const std::string& f) {
                    write_file_atomically(f + "/model.safetensors.index.json", std::string(200000, '['));
                  },
                  "nested too deeply"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep
