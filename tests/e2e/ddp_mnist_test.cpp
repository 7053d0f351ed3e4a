// Tests the lecture's program and its relatives, end to end: real processes, real files, the lines that it prints.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "lockstep/base/files/atomic_file.h"
#include "tests/support/loopback_port.h"
#include "tests/support/running_program.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Words = std::vector<std::string>;

const std::string kMnistBin = LOCKSTEP_BIN_DIR;
const std::string kMnist = std::string(LOCKSTEP_SHARED_DATA) + "/mnist";

Deadline soon() { return Deadline::after(std::chrono::seconds(120)); }
bool mnist_output_has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool matches(const std::string& text, const std::string& pattern) {
  return std::regex_search(text, std::regex(pattern));
}

// The number that follows `label`; fails if there is none.
double number_after(const std::string& text, const std::string& label) {
  const std::size_t at = text.find(label);
  EXPECT_NE(at, std::string::npos) << label << " in:\n" << text;
  return at == std::string::npos ? -1 : std::stod(text.substr(at + label.size()));
}

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Words by_hand(int world_size, int rank, const LoopbackPort& port, const Words& more) {
  return with({kMnistBin + "/ddp_mnist", "-w", std::to_string(world_size), "-nr", std::to_string(rank), "--master_addr",
               "127.0.0.1", "--master_port", port.text()},
              more);
}

Words launched(int ranks, const Words& more) {
  return with({kMnistBin + "/lockstep", "run", "--nproc-per-node", std::to_string(ranks), kMnistBin + "/ddp_mnist"},
              more);
}

// The lines with losses and the accuracy, in the order of their text: ranks print when they like.
Words results_in(const std::string& out) {
  Words lines;
  std::istringstream in(out);
  for (std::string line; std::getline(in, line);) {
    if (mnist_output_has(line, "Loss: ") || mnist_output_has(line, "Accuracy")) lines.push_back(line);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

// Generated digits, made once for all tests of this program.
const std::string& digits() {
  static const TemporaryFolder folder;
  static const std::string path = [] {
    const auto end = run_program(
        {kMnistBin + "/lockstep", "data", "digits", "--output", folder / "digits", "--train", "2000", "--test", "500"});
    EXPECT_EQ(end.code, 0) << end.err;
    return folder / "digits";
  }();
  return path;
}

TEST(DdpMnist, TwoTerminalsShowWhatTheLectureShows) {
  const Words flags{"--data", digits(), "--batch_size", "10"};
  const LoopbackPort port;
  RunningProgram first(by_hand(2, 0, port, flags));
  ASSERT_TRUE(first.wait_for("hello! Node # 0 is being initialized! Awaiting all nodes to join.", soon()));
  EXPECT_FALSE(mnist_output_has(first.out(), "is running"));
  RunningProgram second(by_hand(2, 1, port, flags));
  const ProgramEnd first_end = first.wait(soon());
  ASSERT_EQ(first_end.code, 0) << first_end.err;
  const ProgramEnd second_end = second.wait(soon());
  EXPECT_EQ(second_end.code, 0) << second_end.err;
  EXPECT_TRUE(mnist_output_has(first_end.out, "hello! Node # 0 is running!"));
  EXPECT_TRUE(mnist_output_has(second_end.out, "hello! Node # 1 is running!"));
  for (const auto& out : {first_end.out, second_end.out}) {
    EXPECT_TRUE(matches(out, "Epoch \\[1/2\\], Step \\[100/100\\], Loss: [0-9]\\.[0-9]{4}\n")) << out;
    EXPECT_TRUE(matches(out, "Epoch \\[2/2\\], Step \\[100/100\\], Loss: [0-9]\\.[0-9]{4}\n")) << out;
  }
  EXPECT_TRUE(mnist_output_has(first_end.out, "Accuracy on the test images: "));
  // How the ranks were started changes nothing.
  const ProgramEnd together = run_program(launched(2, flags));
  ASSERT_EQ(together.code, 0) << together.err;
  EXPECT_EQ(results_in(together.out), results_in(first_end.out + second_end.out));
  EXPECT_EQ(results_in(together.out).size(), 5U) << together.out;  // two epochs of two ranks, and the accuracy
}

TEST(DdpMnistLong, LearnsRealMnistOnTwoRanks) {
  if (!std::filesystem::exists(kMnist)) GTEST_SKIP() << "real MNIST is not at " << kMnist;
  const ProgramEnd end =
      run_program(launched(2, {"--data", kMnist, "--epochs", "2", "--optimizer", "adam", "--lr", "1e-3"}), {},
                  std::chrono::seconds(600));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(mnist_output_has(end.out, "Epoch [2/2], Step [300/300], Loss: ")) << end.out;
  EXPECT_GE(number_after(end.out, "Accuracy on the test images: "), 98.0) << end.out;
  EXPECT_TRUE(mnist_output_has(end.out, "samples/s per rank")) << end.out;
}

TEST(DdpMnistLong, RanksShareTheSameModelWhateverTheirNumber) {
  for (const int ranks : {1, 3}) {
    const ProgramEnd end = run_program(launched(
        ranks, {"--data", digits(), "--epochs", "2", "--optimizer", "adam", "--lr", "1e-3", "--batch_size", "20"}));
    ASSERT_EQ(end.code, 0) << end.err;
    EXPECT_GE(number_after(end.out, "Accuracy on the test images: "), 80.0) << ranks << " ranks:\n" << end.out;
  }
}

TEST(DdpMnist, RunsUnderTorchrun) {
  const Words torchrun{"/usr/bin/python3", "-m", "torch.distributed.run"};
  if (run_program({"/usr/bin/python3", "-c", "import torch"}).code != 0) {
    GTEST_SKIP() << "/usr/bin/python3 has no torch (package python3-torch)";
  }
  // Debian's torchrun 1.13 fails on Python 3.11 unless redirects and tee are given.
  const TemporaryFolder logs;
  const LoopbackPort port;
  const ProgramEnd end = run_program(
      with(torchrun, {"--no_python", "--nproc_per_node", "2", "--master_port", port.text(), "--redirects", "1", "--tee",
                      "1", "--log_dir", logs.path(), kMnistBin + "/ddp_mnist", "--data", digits(), "--epochs", "1"}),
      {}, std::chrono::seconds(180));
  if (mnist_output_has(end.err, "PyTorch was build without libuv support")) {
    GTEST_SKIP() << "this torchrun starts nothing: Debian 13 builds PyTorch without the libuv that it asks for";
  }
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(mnist_output_has(end.out, "Accuracy on the test images: ")) << end.out << end.err;
}

TEST(DdpMnist, RankThatNeverComesIsNamed) {
  const LoopbackPort port;
  const ProgramEnd end = run_program(by_hand(2, 0, port, {"--data", digits()}), {{"LOCKSTEP_TIMEOUT_S", "1"}});
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(matches(end.err, "rank.* 1")) << end.err;
}

struct BadInput {
  const char* name;
  Words flags;
  std::string says;
  int code;
  friend std::ostream& operator<<(std::ostream& out, const BadInput& c) { return out << c.name; }
};
class DdpMnistRefuses : public ::testing::TestWithParam<BadInput> {};

TEST_P(DdpMnistRefuses, WithAClearError) {
  const ProgramEnd end = run_program(with({kMnistBin + "/ddp_mnist"}, GetParam().flags));
  EXPECT_EQ(end.code, GetParam().code);
  EXPECT_EQ(end.signal, 0);
  EXPECT_TRUE(mnist_output_has(end.err, GetParam().says)) << end.err;
}
INSTANTIATE_TEST_SUITE_P(Table, DdpMnistRefuses,
                         ::testing::Values(BadInput{"missing_data", {"--data", "nowhere"}, "nowhere", 1},
                                           BadInput{"unknown_flag", {"--wings"}, "--wings", 2},
                                           BadInput{"no_epochs", {"--epochs", "0"}, "epochs", 2},
                                           BadInput{"rank_outside", {"-w", "2", "-nr", "2"}, "rank", 1},
                                           BadInput{"no_world", {"-w", "0"}, "world", 1},
                                           BadInput{"gpu", {"-g", "0"}, "there is no CUDA device 0", 1},
                                           BadInput{"no_gpu", {"-g", "-2"}, "gpu", 2}),
                         [](const auto& test) { return test.param.name; });

TEST(DdpMnist, TruncatedImagesAreNamedOnEveryRank) {
  const TemporaryFolder folder;
  std::filesystem::copy(digits(), folder / "digits", std::filesystem::copy_options::recursive);
  const std::string images = folder / "digits/train-images-idx3-ubyte";
  std::filesystem::resize_file(images, 1000);
  const ProgramEnd end = run_program(launched(2, {"--data", folder / "digits"}));
  EXPECT_EQ(end.code, 1);
  EXPECT_TRUE(mnist_output_has(end.err, "train-images-idx3-ubyte")) << end.err;
}

}  // namespace
}  // namespace lockstep
