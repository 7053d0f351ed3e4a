// Tests checkpoints that were truncated, changed or taken apart after writing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/base/files/sha256.h"
#include "lockstep/checkpoint/checkpoint_search.h"
#include "lockstep/checkpoint/checkpoint_writer.h"
#include "lockstep/checkpoint/files/manifest.h"
#include "tests/checkpoint/faulty_file_system.h"
#include "tests/checkpoint/sample_content.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class DamagedCheckpoints : public ::testing::Test {
 protected:
  DamagedCheckpoints() {
    CheckpointWriterOptions options;
    options.output_dir = folder_.path();
    options.background = false;
    options.file_system = &files_;
    CheckpointWriter writer(options);
    writer.save(sample_content(10));
    writer.save(sample_content(20));
  }

  std::string newest(const std::string& name) const { return folder_ / ("checkpoint-20/" + name); }
  static std::vector<std::string> names() {
    return {"manifest.json",
            "model.safetensors",
            "optimizer.safetensors",
            "rng_state_0.safetensors",
            "rank_state_0.safetensors",
            "position_0.json",
            "trainer_state.json",
            "config.json",
            "1_Pooling/config.json",
            "vocab.txt",
            "optimizer-notes.txt"};
  }

  // Expects that the newest is refused, with `part` in the reason, and that the previous one is found, whole.
  void expect_passed_over(const std::string& part) const {
    const CheckpointSearch search = find_newest_checkpoint(folder_.path());
    ASSERT_TRUE(search.newest);
    expect_sample(*search.newest, 10);
    ASSERT_EQ(search.damaged.size(), 1u);
    EXPECT_EQ(search.damaged[0].path, folder_ / "checkpoint-20");
    EXPECT_NE(search.damaged[0].reason.find(part), std::string::npos) << search.damaged[0].reason;
    EXPECT_NE(search.notice().find("checkpoint-20 is skipped: "), std::string::npos);
    EXPECT_THROW(Checkpoint(folder_ / "checkpoint-20"), Error);
  }

  TemporaryFolder folder_;
  FaultyFileSystem files_;
};

TEST_F(DamagedCheckpoints, HaveExactlyTheFilesOfTheFormat) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "checkpoint-20")) {
    if (!entry.is_directory()) found.push_back(fs::relative(entry.path(), folder_ / "checkpoint-20"));
  }
  std::vector<std::string> want = names();
  std::sort(found.begin(), found.end());
  std::sort(want.begin(), want.end());
  EXPECT_EQ(found, want);
  const CheckpointSearch search = find_newest_checkpoint(folder_.path());
  ASSERT_TRUE(search.newest);
  expect_sample(*search.newest, 20);
  EXPECT_EQ(search.notice(), "");
}

TEST_F(DamagedCheckpoints, WithoutAFileArePassedOver) {
  for (const std::string& name : names()) {
    SCOPED_TRACE(name);
    fs::rename(newest(name), folder_ / "aside");
    expect_passed_over(name);
    fs::rename(folder_ / "aside", newest(name));
  }
}

TEST_F(DamagedCheckpoints, CutShortArePassedOver) {
  for (const std::string& name : names()) {
    const std::string whole = read_file(newest(name));
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, whole.size() / 2, whole.size() - 1}) {
      if (name == "manifest.json" && length == whole.size() - 1) continue;  // its last byte ends the line
      SCOPED_TRACE(name + " cut to " + std::to_string(length));
      fs::resize_file(newest(name), length);
      expect_passed_over(name == "manifest.json" ? "manifest" : name);
      write_file_atomically(newest(name), whole);
    }
    write_file_atomically(newest(name), whole + " ");
    if (name != "manifest.json") expect_passed_over(name);  // JSON may end in a space
    write_file_atomically(newest(name), whole);
  }
}

TEST_F(DamagedCheckpoints, WithAFlippedBitArePassedOver) {
  for (const std::string& name : names()) {
    const std::string whole = read_file(newest(name));
    for (std::size_t i = 0; i < 16; ++i) {
      const std::size_t at = whole.size() * i / 16;
      SCOPED_TRACE(name + " changed at " + std::to_string(at));
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ (1 << (i % 8)));
      write_file_atomically(newest(name), changed);
      // A blank in the manifest may become another blank, which changes nothing.
      if (name == "manifest.json" && std::isspace(static_cast<unsigned char>(whole[at])) != 0) continue;
      expect_passed_over(name == "manifest.json" ? "manifest" : name);
    }
    write_file_atomically(newest(name), whole);
  }
}

TEST_F(DamagedCheckpoints, ThatWereRenamedOrAreForeignArePassedOver) {
  fs::rename(folder_ / "checkpoint-20", folder_ / "checkpoint-30");
  CheckpointSearch search = find_newest_checkpoint(folder_.path());
  ASSERT_TRUE(search.newest);
  EXPECT_EQ(search.newest->step(), 10);
  ASSERT_EQ(search.damaged.size(), 1u);
  EXPECT_NE(search.damaged[0].reason.find("renamed"), std::string::npos);
  fs::remove_all(folder_ / "checkpoint-30");
  fs::create_directories(folder_ / "checkpoint-40");
  fs::create_directories(folder_ / "checkpoint-x");
  write_file_atomically(folder_ / "checkpoint-50", "not a folder");
  write_file_atomically(folder_ / "checkpoint-40/trainer_state.json", "{}");
  search = find_newest_checkpoint(folder_.path());
  EXPECT_EQ(search.newest->step(), 10);
  ASSERT_EQ(search.damaged.size(), 1u);
  EXPECT_NE(search.damaged[0].reason.find("manifest.json"), std::string::npos) << search.damaged[0].reason;
  write_file_atomically(folder_ / "checkpoint-40/training_args.bin", "a pickle");
  const std::string reason = find_newest_checkpoint(folder_.path()).damaged.at(0).reason;
  EXPECT_NE(reason.find("by Hugging Face's Trainer"), std::string::npos) << reason;
  EXPECT_NE(reason.find("--model " + (folder_ / "checkpoint-40")), std::string::npos) << reason;
}

TEST_F(DamagedCheckpoints, WithAFileThatIsAFolderOrAPipeAreRefusedWithoutWaiting) {
  fs::remove(newest("vocab.txt"));
  fs::create_directory(newest("vocab.txt"));
  expect_passed_over("vocab.txt");
}

TEST_F(DamagedCheckpoints, AreNamedWhenNoneIsWhole) {
  fs::remove(folder_ / "checkpoint-10/config.json");
  fs::remove(newest("config.json"));
  const CheckpointSearch search = find_newest_checkpoint(folder_.path());
  EXPECT_FALSE(search.newest);
  ASSERT_EQ(search.damaged.size(), 2u);
  EXPECT_EQ(search.damaged[0].path, folder_ / "checkpoint-20");
  EXPECT_FALSE(find_newest_checkpoint(folder_ / "nowhere").newest);
}

// With the right checksum, so that the numbers themselves are read.
TEST(Manifest, RefusesNumbersThatAreNotWholeOrDoNotFit) {
  const std::string sum = std::string(64, '0');
  for (const std::string number : {"1e300", "0.5", "18446744073709551616", "-1"}) {
    nlohmann::json json = nlohmann::json::parse(
        R"({"format": "lockstep checkpoint", "version": 1, "step": 10, "world_size": 2, "sequence": 3, "files":
            {"model.safetensors": {"bytes": )" +
        number + R"(, "sha256": ")" + sum + "\"}}}");
    json["sha256"] = sha256_hex(json.dump());
    try {
      parse_manifest(json.dump(), "manifest.json");
      ADD_FAILURE() << number << " bytes were taken";
    } catch (const Error& error) {
      EXPECT_NE(error.happened().find("\"bytes\" is "), std::string::npos) << error.what();
    }
  }
}

TEST_F(DamagedCheckpoints, ShowTheWholeOfBothSums) {
  const std::string path = newest("vocab.txt");
  const std::string written = Checkpoint(folder_ / "checkpoint-20").manifest().files.at("vocab.txt").sha256;
  std::string content = read_file(path);
  content[0] = static_cast<char>(content[0] ^ 1);
  std::ofstream(path, std::ios::binary) << content;
  try {
    Checkpoint(folder_ / "checkpoint-20");
    ADD_FAILURE() << "the changed file was taken";
  } catch (const Error& error) {
    EXPECT_NE(error.happened().find("the manifest says " + written), std::string::npos) << error.what();
  }
}

TEST_F(DamagedCheckpoints, SumsAreThoseOfSha256sum) {
  FILE* pipe = ::popen(("sha256sum < " + newest("vocab.txt")).c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  char text[65] = {};
  ASSERT_EQ(std::fread(text, 1, 64, pipe), 64u);
  ::pclose(pipe);
  EXPECT_EQ(Checkpoint(folder_ / "checkpoint-20").manifest().files.at("vocab.txt").sha256, text);
}

}  // namespace
}  // namespace lockstep
