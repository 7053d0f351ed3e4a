#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/seeing/crc32c.h"
#include "lockstep/seeing/tensorboard_writer.h"
#include "lockstep/train/tensorboard_callback.h"
#include "tests/data/python_program.h"
#include "tests/seeing/seeing_events.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using namespace std::string_literals;

// RFC 3720, appendix B.4.
TEST(Crc32c, IsThatOfTheStandard) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  std::string rising, falling;
  for (int i = 0; i < 32; ++i) rising += static_cast<char>(i), falling += static_cast<char>(31 - i);
  EXPECT_EQ(crc32c(rising), 0x46dd794eU);
  EXPECT_EQ(crc32c(falling), 0x113fdb5cU);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
}

TEST(TensorBoardTags, AreThoseOfHuggingFace) {
  EXPECT_EQ(tensorboard_tag("loss"), "train/loss");
  EXPECT_EQ(tensorboard_tag("eval_accuracy"), "eval/accuracy");
  EXPECT_EQ(tensorboard_tag("eval_validation_loss"), "eval/validation_loss");
  EXPECT_EQ(tensorboard_tag("test_f1"), "test/f1");
  EXPECT_EQ(tensorboard_tag("train_runtime"), "train/train_runtime");
}

// The record of one number, byte by byte: length, its sum, {wall_time, step 3, summary {tag "a", value 1.5}}, its sum.
TEST(TensorBoardWriter, WritesRecordsOfTheFormat) {
  const TemporaryFolder folder;
  std::string path;
  {
    TensorBoardWriter writer(folder / "runs/one");
    path = writer.path();
    writer.add_scalar("a", 1.5, 3);
  }
  EXPECT_NE(path.find("/runs/one/events.out.tfevents."), std::string::npos);
  const std::string file = read_file(path);
  std::uint64_t first = 0;
  std::memcpy(&first, file.data(), 8);
  ASSERT_LT(first + 16, file.size());
  const std::string version = file.substr(12, first);
  EXPECT_EQ(version.substr(version.size() - 15), "\x1a\x0d"s + "brain.Event:2");
  const std::string record = file.substr(first + 16);
  EXPECT_EQ(record.substr(0, 8), "\x17\0\0\0\0\0\0\0"s);
  const std::string event = record.substr(12, 0x17);
  EXPECT_EQ(event.substr(0, 1), "\x09");
  EXPECT_EQ(event.substr(9), "\x10\x03\x2a\x0a\x0a\x08\x0a\x01"s + "a" + "\x15\0\0\xc0\x3f"s);
  EXPECT_EQ(record.size(), 12u + 0x17 + 4);
  const std::uint32_t sum = crc32c(event);
  std::uint32_t masked = 0;
  std::memcpy(&masked, record.data() + 12 + 0x17, 4);
  EXPECT_EQ(masked, ((sum >> 15) | (sum << 17)) + 0xa282ead8U);
}

TEST(TensorBoardWriter, SaysWhyItCannotWrite) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "");
  EXPECT_THROW(TensorBoardWriter(folder / "file"), Error);
}

// Uses TensorBoard's own reader, if a Python in PATH has it.
TEST(TensorBoard, ReadsBackWhatWasWritten) {
  const TemporaryFolder folder;
  TrainingArguments args;
  args.logging_dir = folder / "logs";
  TrainerState state;
  TensorBoardCallback callback;
  play_training(callback, args, state, 6, 2);
  state.global_step = 4;  // resumes from a checkpoint: entries for steps 5 and 6 no longer count
  play_training(callback, args, state, 4, 4);
  const std::string output = run_python(R"(
import json
from tensorboard.backend.event_processing import event_accumulator
events = event_accumulator.EventAccumulator(')" +
                                        folder.path() + R"(/logs')
events.Reload()
scalars = {tag: [[e.step, e.value] for e in events.Scalars(tag)] for tag in events.Tags()['scalars']}
texts = {tag: events.Tensors(tag)[0].tensor_proto.string_val[0].decode() for tag in events.Tags()['tensors']}
plugin = events.SummaryMetadata('args').plugin_data.plugin_name
print(json.dumps({'scalars': scalars, 'texts': texts, 'plugin': plugin}))
)");
  if (output.empty()) {
    GTEST_SKIP() << "no Python on the PATH has tensorboard: python3 -m venv v && v/bin/pip install tensorboard, then "
                    "run this with PATH=v/bin:$PATH";
  }
  const auto json = nlohmann::json::parse(output);
  EXPECT_EQ(json["scalars"]["train/loss"], nlohmann::json::parse("[[2,0.5],[4,0.25],[8,0.125]]"));
  EXPECT_EQ(json["scalars"]["eval/accuracy"], nlohmann::json::parse("[[8,0.75]]"));
  EXPECT_EQ(json["scalars"]["eval/loss"][0][1], 0.25);
  EXPECT_FLOAT_EQ(json["scalars"]["train/learning_rate"][2][1].get<float>(), 8e-3F);
  EXPECT_EQ(json["plugin"], "text");
  EXPECT_NE(json["texts"]["args"].get<std::string>().find("\"per_device_train_batch_size\": 8"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
