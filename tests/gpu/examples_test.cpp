// Runs each example on two CUDA devices, with small sizes: does it compute there, and does each rank stay on its own?
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <ostream>
#include <sstream>

#include "lockstep/base/files/atomic_file.h"
#include "tests/gpu/device_words.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

const std::string kCudaShipped = std::string(LOCKSTEP_SOURCE_DIR) + "/data/";

// Files that the examples read, made once.
const std::string& example_files() {
  static const TemporaryFolder folder;
  static const std::string path = [] {
    const auto digits = run_program(
        {kCudaBin + "/lockstep", "data", "digits", "--output", folder / "digits", "--train", "60", "--test", "20"});
    EXPECT_EQ(digits.code, 0) << digits.err;
    std::string rows = "review,division\n", pairs = "premise,hypothesis,label\n", connections;
    for (int i = 0; i < 24; ++i) {
      const std::string number = std::to_string(i);
      rows += "a good book " + number + ",positive\nbad " + number + ",negative\nwell " + number + ",neutral\n";
      pairs += "A boat " + number + ".,A red boat.," + (i % 2 == 0 ? "neutral\n" : "entailment\n");
      connections += number + ",tcp,http,SF,100,5";
      for (int column = 0; column < 35; ++column) connections += ",0." + std::to_string(column % 7);
      connections += i % 2 == 0 ? ",neptune,15\n" : ",normal,20\n";
    }
    write_file_atomically(folder / "rows.csv", rows);
    write_file_atomically(folder / "pairs.csv", pairs);
    write_file_atomically(folder / "connections.txt", connections);
    return folder.path();
  }();
  return path;
}

// FILES, DATA and OUT in a flag are the folders of what is made, of what is shipped, and for what is written.
CudaWords with_folders(const CudaWords& flags, const std::string& out) {
  CudaWords words;
  for (std::string word : flags) {
    const std::pair<std::string, std::string> folders[] = {
        {"FILES", example_files()}, {"DATA/", kCudaShipped}, {"OUT", out}};
    for (const auto& [name, folder] : folders) {
      if (word.rfind(name, 0) == 0) word = folder + word.substr(name.size());
    }
    words.push_back(word);
  }
  return words;
}

std::string text_of_file(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

struct CudaExample {
  std::string program;
  CudaWords launcher;  // before the program: lockstep's words, or nothing
  CudaWords flags;
  std::string says;
  int processes;     // that compute on devices
  int contexts = 1;  // devices that each of them uses
  friend std::ostream& operator<<(std::ostream& out, const CudaExample& c) { return out << c.program; }
};
class CudaExamples : public ::testing::TestWithParam<CudaExample> {};

// The numbers behind `label` in the lines with which processes on fake devices end.
std::vector<int> fake_reports(const std::string& err, const std::string& label) {
  std::vector<int> numbers;
  std::istringstream in(err);
  for (std::string line; std::getline(in, line);) {
    const std::size_t at = line.find(" " + label + "=");
    if (cuda_text_has(line, "[fake GPU] process") && at != std::string::npos) {
      numbers.push_back(std::stoi(line.substr(at + label.size() + 2)));
    }
  }
  return numbers;
}

TEST_P(CudaExamples, ComputeOnTheirDevices) {
  SKIP_BELOW_DEVICES(2);
  const CudaExample& example = GetParam();
  std::filesystem::current_path(LOCKSTEP_SOURCE_DIR);  // trainer_dataparallel looks for its tokenizer there
  const TemporaryFolder out;
  CudaWords words;
  if (!example.launcher.empty()) {
    words = {kCudaBin + "/lockstep"};
    words.insert(words.end(), example.launcher.begin(), example.launcher.end());
  }
  words.push_back(kCudaBin + "/" + example.program);
  const CudaWords flags = with_folders(example.flags, out.path());
  words.insert(words.end(), flags.begin(), flags.end());
  const ProgramEnd end = run_program(words, {{"FAKE_GPU_REPORT", "1"}}, std::chrono::seconds(240));
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_TRUE(cuda_text_has(end.out + end.err, example.says)) << end.out << end.err;
  if (!are_fake()) return;
  const std::vector<int> contexts = fake_reports(end.err, "contexts");
  EXPECT_EQ(contexts.size(), static_cast<std::size_t>(example.processes)) << end.err;
  for (const int count : contexts) {
    // LibTorch's first copy between devices makes a context on each that the process sees (docs/gpu.md).
    if (example.contexts > 1) {
      EXPECT_GE(count, example.contexts) << end.err;
    } else {
      EXPECT_EQ(count, 1) << end.err;
    }
  }
  for (const int launches : fake_reports(end.err, "launches")) EXPECT_GT(launches, 20) << end.err;
}

const CudaWords kTwoRanks{"run", "--nproc-per-node", "2"}, kTwoProcesses{"launch", "--num-processes", "2"};
const CudaWords kReviews{"--train",      "FILES/rows.csv",
                         "--test",       "FILES/rows.csv",
                         "--tokenizer",  "DATA/reviews-vocab",
                         "--epochs",     "1",
                         "--batch_size", "18",
                         "--max_length", "8"};
const CudaWords kGpt{"--data",          "FILES/rows.csv",
                     "--tokenizer",     "DATA/bytes-vocab",
                     "--train_step",    "2",
                     "--batch_size",    "2",
                     "--seq_len",       "8",
                     "--save",          "OUT/saved",
                     "--save_interval", "2"};
const CudaWords kImages{"--data", "FILES/digits", "--epochs", "1", "--batch_size", "10"};
const CudaWords kTrainer{"--max-steps", "2", "--per-device-train-batch-size", "4", "--output-dir", "OUT"};

CudaWords and_also(CudaWords words, const CudaWords& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

INSTANTIATE_TEST_SUITE_P(
    Table, CudaExamples,
    ::testing::Values(
        CudaExample{"ddp_mnist", kTwoRanks, kImages, "Accuracy on the test images: ", 2},
        CudaExample{"ddp_reviews", kTwoRanks, and_also(kReviews, {"--save", "OUT/saved"}), "checkpoint saved", 2},
        CudaExample{"gpt2_lm", kTwoRanks, kGpt, "Step: 2, saved in ", 2},
        CudaExample{"oslo_gpt2", kTwoRanks, kGpt, "", 2},
        CudaExample{"torch_data_mnist", kTwoRanks, and_also(kImages, {"--weights", "OUT/net.pt"}), "accuracy ", 2},
        CudaExample{"uneven_inputs", kTwoRanks, {}, "rank 1: y = ", 2},
        CudaExample{"kdd_mlp",
                    kTwoRanks,
                    {"--train", "FILES/connections.txt", "--test", "FILES/connections.txt", "--epochs", "1"},
                    "Accuracy on the 24 test records",
                    2},
        CudaExample{"accelerate_mnist", kTwoProcesses, kImages, "Loss: ", 2},
        CudaExample{"accelerate_loop", kTwoProcesses, and_also(kImages, {"--output", "OUT"}), "test images are right",
                    2},
        CudaExample{"trainer_reviews", kTwoRanks,
                    and_also(kTrainer, {"--train-file", "FILES/rows.csv", "--validation-file", "FILES/rows.csv",
                                        "--tokenizer", "DATA/reviews-vocab"}),
                    "eval_f1", 2},
        // Until here one device for each rank; from here none, or all of them in one process.
        CudaExample{"fsdp_gpt2",
                    kTwoRanks,
                    {"--layers", "2", "--width", "32", "--seq_len", "8", "--steps", "2"},
                    "fully_shard computes on the CPU alone",
                    0},
        CudaExample{"elastic_mnist",
                    kTwoRanks,
                    {"--data", "FILES/digits", "--steps", "2", "--shards", "2", "--batch_size", "5"},
                    "on_rank_change computes on the CPU alone",
                    0},
        CudaExample{"dp_sentiment",
                    {},
                    {"--data", "FILES/rows.csv", "--tokenizer", "DATA/reviews-vocab", "--batch_size", "16",
                     "--max_length", "8", "--replicas", "2"},
                    " : acc: ",
                    1,
                    2},
        CudaExample{"trainer_dataparallel",
                    {},
                    and_also(kTrainer, {"--train-file", "DATA/reviews.csv", "--gradient-accumulation-steps", "1"}),
                    "train_loss",
                    1,
                    2},
        CudaExample{"dp_nli",
                    {},
                    {"--train", "FILES/pairs.csv", "--test", "FILES/pairs.csv", "--tokenizer", "DATA/reviews-vocab",
                     "--batch_size", "12", "--replicas", "2"},
                    "loss:",
                    1,
                    2}),
    [](const auto& test) { return test.param.program; });

// Texts that a model rates which devices have trained: saved from a device, and loaded again.
TEST(CudaSavedModel, IsUsedOnDevices) {
  SKIP_BELOW_DEVICES(2);
  const TemporaryFolder out;
  const auto run_flags = [&](const CudaWords& before, const CudaWords& flags) {
    return run_program(and_also(before, with_folders(flags, out.path())), {{"FAKE_GPU_REPORT", "1"}},
                       std::chrono::seconds(240));
  };
  const CudaWords ranks = and_also({kCudaBin + "/lockstep"}, kTwoRanks);
  const ProgramEnd trained =
      run_flags(and_also(ranks, {kCudaBin + "/ddp_reviews"}), and_also(kReviews, {"--save", "OUT/saved"}));
  ASSERT_EQ(trained.code, 0) << trained.out << trained.err;
  const ProgramEnd replicas =
      run_flags({kCudaBin + "/dp_inference"},
                {"--model", "OUT/saved", "--data", "FILES/rows.csv", "--replicas", "2", "--output", "OUT/one.txt"});
  EXPECT_EQ(replicas.code, 0) << replicas.out << replicas.err;
  const ProgramEnd predicted =
      run_flags(and_also(ranks, {kCudaBin + "/predict_reviews"}),
                {"--model", "OUT/saved", "--data", "FILES/rows.csv", "--output", "OUT/two.txt"});
  EXPECT_EQ(predicted.code, 0) << predicted.out << predicted.err;
  if (are_fake()) {
    EXPECT_EQ(fake_reports(replicas.err, "launches").size(), 1U) << replicas.err;
    EXPECT_EQ(fake_reports(predicted.err, "contexts"), (std::vector<int>{1, 1})) << predicted.err;
  }
  EXPECT_EQ(text_of_file(out / "one.txt"), text_of_file(out / "two.txt"));
}

struct CudaChoice {
  const char* name;
  CudaWords launcher, flags;
  int processes, code;
  std::string says;
  friend std::ostream& operator<<(std::ostream& out, const CudaChoice& c) { return out << c.name; }
};
class CudaDdpMnist : public ::testing::TestWithParam<CudaChoice> {};

// The lecture's flag, by hand and under a launcher.
TEST_P(CudaDdpMnist, TakesTheDeviceOfItsFlag) {
  SKIP_BELOW_DEVICES(2);
  CudaWords words;
  if (!GetParam().launcher.empty()) words = and_also({kCudaBin + "/lockstep"}, GetParam().launcher);
  words = and_also(and_also(words, {kCudaBin + "/ddp_mnist"}), with_folders(and_also(kImages, GetParam().flags), ""));
  const ProgramEnd end = run_program(words, {{"FAKE_GPU_REPORT", "1"}}, std::chrono::seconds(240));
  EXPECT_EQ(end.code, GetParam().code) << end.out << end.err;
  EXPECT_TRUE(cuda_text_has(end.out + end.err, GetParam().says)) << end.out << end.err;
  if (!are_fake() || end.code != 0) return;
  EXPECT_EQ(fake_reports(end.err, "contexts"), std::vector<int>(static_cast<std::size_t>(GetParam().processes), 1))
      << end.err;
}

INSTANTIATE_TEST_SUITE_P(
    Table, CudaDdpMnist,
    ::testing::Values(CudaChoice{"the_second", {}, {"-g", "1"}, 1, 0, "Accuracy"},
                      CudaChoice{"the_cpu_by_hand", {}, {}, 0, 0, "Accuracy"},
                      CudaChoice{"the_cpu_under_a_launcher", kTwoRanks, {"-g", "-1"}, 0, 0, "Accuracy"},
                      CudaChoice{"one_that_is_not_there", {}, {"-g", "64"}, 0, 1, "there is no CUDA device 64"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lockstep
