#include "fuzz/fuzz_target.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>

#include "fuzz/targets/targets.h"
#include "lockstep/base/error.h"

namespace lockstep::fuzz {

namespace {

// A folder in memory where there is one. It goes with the process, unless an input ends it.
struct FolderOfProcess {
  FolderOfProcess() {
    const std::filesystem::path memory = "/dev/shm";
    const std::filesystem::path parent =
        std::filesystem::exists(memory) ? memory : std::filesystem::temp_directory_path();
    path = parent / ("lockstep-fuzz-" + std::to_string(::getpid()));
    std::filesystem::create_directories(path);
  }
  ~FolderOfProcess() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  FolderOfProcess(const FolderOfProcess&) = delete;
  FolderOfProcess& operator=(const FolderOfProcess&) = delete;

  std::filesystem::path path;
};

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> all = {
      {"accelerate_config", "accelerate's configuration in YAML or JSON", run_accelerate_config},
      {"arrow", "files and streams of Arrow, and the values of their columns", run_arrow},
      {"csv", "CSV, by every instruction set", run_csv},
      {"decimal", "numbers in tables", run_decimal},
      {"elastic_message", "what launchers of an elastic job tell each other", run_elastic_message},
      {"gzip", "gzip files", run_gzip},
      {"idx", "IDX files, plain and gzip", run_idx},
      {"json_lines", "a line of JSON Lines", run_json_lines},
      {"json_problem", "where a text stops being JSON", run_json_problem},
      {"manifest", "manifest.json of a checkpoint", run_manifest},
      {"merges", "merges.txt", run_merges},
      {"metrics", "metrics.jsonl", run_metrics},
      {"model_config", "config.json of BERT and GPT-2", run_model_config},
      {"optimizer_metadata", "what an optimizer's file says of its tensors", run_optimizer_metadata},
      {"parquet", "Parquet files, and the values of their columns", run_parquet},
      {"part_places", "what a file with parts of weights says of them", run_part_places},
      {"peer_handshake", "the proof of a connection between ranks", run_peer_handshake},
      {"peer_record", "encrypted records of a connection between ranks", run_peer_record},
      {"pickle", "the pickle in pytorch_model.bin", run_pickle},
      {"safetensors_header", "the header of a safetensors file", run_safetensors_header},
      {"sbatch", "scripts for sbatch", run_sbatch},
      {"sentence_layout", "modules.json and its pooling, of sentence-transformers", run_sentence_layout},
      {"slurm_list", "lists of hosts and tasks in Slurm's variables", run_slurm_list},
      {"squad", "JSON in SQuAD's shape", run_squad},
      {"store_frame", "frames of the store's connections", run_store_frame},
      {"store_handshake", "the proof of a connection to the store", run_store_handshake},
      {"store_request", "requests to the store", run_store_request},
      {"store_seal", "sealed frames of the store", run_store_seal},
      {"tokenizer_json", "tokenizer.json, and a text by that tokenizer", run_tokenizer_json},
      {"trainer_state", "trainer_state.json", run_trainer_state},
      {"utf8", "UTF-8, and its form for a terminal", run_utf8},
      {"vocabulary", "vocab.txt", run_vocabulary},
      {"weight_index", "model.safetensors.index.json", run_weight_index},
      {"yaml_arguments", "training arguments in YAML", run_yaml_arguments},
  };
  return all;
}

const Target& find_target(const std::string& name) {
  std::string known;
  for (const Target& target : targets()) {
    if (target.name == name) return target;
    known += std::string(known.empty() ? "" : ", ") + target.name;
  }
  throw UsageError("there is no target \"" + name + "\"", "--target", "name one of " + known);
}

void run_target(const Target& target, std::string_view bytes) {
  try {
    target.run(bytes);
  } catch (const Error&) {  // refused, in words
  }
}

void violated(const char* condition, const char* file, int line) {
  throw std::logic_error(std::string(file) + ":" + std::to_string(line) + ": does not hold: " + condition);
}

std::string file_with(const std::string& name, std::string_view bytes) {
  static const FolderOfProcess folder;
  const std::filesystem::path path = folder.path / name;
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  return path;
}

}  // namespace lockstep::fuzz
