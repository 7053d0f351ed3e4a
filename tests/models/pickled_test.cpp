// Tests that files of torch.save are read as data and never as programs.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/detail/safetensors/weight_files.h"
#include "lockstep/models/pickled/pickle_machine.h"
#include "lockstep/models/pickled/pickled_weights.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_size.h"

namespace lockstep {
namespace {

using namespace std::string_literals;  // pickles hold zeros

const std::string kPickledFolder = LOCKSTEP_SOURCE_DIR "/tests/models/fixtures/pickled";

void expect_same(const NamedTensors& got) {
  const SafetensorsFile want(kPickledFolder + "/same.safetensors");
  EXPECT_EQ(got.size(), want.entries().size());
  for (const auto& [name, tensor] : got) {
    ASSERT_TRUE(want.contains(name)) << name;
    EXPECT_EQ(tensor.scalar_type(), want.tensor(name).scalar_type()) << name;
    EXPECT_EQ(tensor.sizes(), want.tensor(name).sizes()) << name;
    EXPECT_TRUE(torch::equal(tensor, want.tensor(name))) << name;
  }
}

TEST(Pickled, BothFormatsAreRead) {
  expect_same(read_pickled_weights(kPickledFolder + "/zip.bin"));
  expect_same(read_pickled_weights(kPickledFolder + "/old.bin"));
}

TEST(Pickled, FoldersAreConvertedOnce) {
  const TemporaryFolder folder;
  std::filesystem::copy_file(kPickledFolder + "/zip.bin", folder / "pytorch_model.bin");
  EXPECT_EQ(convert_pickled_weights(folder.path()), 16);
  const WeightFiles files(folder.path());
  NamedTensors got;
  for (const std::string& name : files.names()) got.emplace_back(name, files.tensor(name));
  expect_same(got);
  EXPECT_THROW(convert_pickled_weights(folder.path()), Error);
}

std::string refusal_of(const std::string& pickle) {
  try {
    std::size_t begin = 0;
    read_pickle(pickle, begin, "weights.bin");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

struct BadPickle {
  const char* name;
  std::string bytes;
  const char* says;
};

class BadPickles : public ::testing::TestWithParam<BadPickle> {};

TEST_P(BadPickles, AreRefusedAndNotRun) {
  const std::string refusal = refusal_of("\x80\x02"s + GetParam().bytes);
  EXPECT_NE(refusal.find(GetParam().says), std::string::npos) << refusal;
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadPickles,
    ::testing::Values(
        BadPickle{"runs_a_command", "cos\nsystem\n(X\x02\0\0\0idtR."s, "the pickle names os.system"},
        BadPickle{"evaluates", "cbuiltins\neval\nX\x01\0\0\0"s + "1\x85R.", "the pickle names builtins.eval"},
        BadPickle{"hides_in_torch", "ctorch.hub\nload\n)R.", "the pickle names torch.hub.load"},
        BadPickle{"names_a_function_as_storage", "ctorch.hub\nxStorage\n)R.", "the pickle names torch.hub.xStorage"},
        BadPickle{"calls_a_storage", "ctorch\nFloatStorage\n)R.", "the pickle calls torch.FloatStorage"},
        BadPickle{"makes_an_instance", "(ios\nsystem\n.", "the pickle has the opcode 0x69"},
        BadPickle{"makes_a_new_object", "ccollections\nOrderedDict\n)\x81.", "the pickle has the opcode 0x81"},
        BadPickle{"names_from_the_stack", "X\x02\0\0\0osX\x06\0\0\0system\x93."s, "the pickle has the opcode 0x93"},
        BadPickle{"gives_arguments_to_a_dictionary", "ccollections\nOrderedDict\n]\x85R.",
                  "calls collections.OrderedDict"},
        BadPickle{"sets_attributes_of_a_list", "]}b.", "the pickle sets attributes"},
        BadPickle{"takes_from_an_empty_stack", "R.", "takes what is not there"},
        BadPickle{"takes_below_a_mark", "K\x01(\x85.", "takes what is not there"},
        BadPickle{"closes_no_mark", "K\x01t.", "takes what is not there"},
        BadPickle{"gets_no_memo", "h\x07.", "takes what is not there"},
        BadPickle{"has_a_foreign_id", "X\x01\0\0\0xQ."s, "unknown persistent id"},
        BadPickle{"is_nested_deeply", std::string(40, ']') + std::string(39, 'a') + ".", "nested deeply"},
        BadPickle{"holds_itself", "]q\0h\0a."s, "adds to what is already part of something"},
        BadPickle{"text_without_end", "X\xff\xff\xff\x7fx."s, "ends too early"},
        BadPickle{"name_without_end", "cos", "ends too early"}, BadPickle{"never_stops", "K\x01", "ends too early"}),
    [](const auto& test) { return test.param.name; });

// Any damage ends in an Error or in tensors, and never in anything else.
TEST(Pickled, DamageIsAnErrorWhereverItIs) {
  const TemporaryFolder folder;
  const std::string path = folder / "damaged.bin";
  for (const char* name : {"old.bin", "zip.bin"}) {
    const std::string whole = read_file(kPickledFolder + "/" + name);
    int refused = 0, damages = 0;
    for (std::size_t i = 0; i < whole.size(); i += test_size(11, 3)) {
      std::string bytes = whole;
      bytes[i] = static_cast<char>(bytes[i] ^ 0x55);
      for (const std::string& damaged : {bytes, whole.substr(0, i)}) {
        write_file_atomically(path, damaged);
        ++damages;
        try {
          read_pickled_weights(path);
        } catch (const Error&) {
          ++refused;
        }
      }
    }
    EXPECT_GT(2 * refused, damages) << name;
  }
}

TEST(Pickled, OnlyTensorsByNameAreWeights) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& dict) -> std::string {
    const std::string number = "\x80\x02K\x01."s;
    write_file_atomically(folder / "x.bin", number + number + number + "\x80\x02"s + dict + "." + "\x80\x02]."s);
    try {
      read_pickled_weights(folder / "x.bin");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal("]").find("the file does not contain a dictionary of tensors"), std::string::npos) << refusal("]");
  EXPECT_NE(refusal("}X\x01\0\0\0aK\x01s"s).find("\"a\" is not a tensor"), std::string::npos);
  const std::string storage = "(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0kX\x03\0\0\0cpuK\x04tQ"s;
  const std::string tensor = "}X\x01\0\0\0actorch._utils\n_rebuild_tensor_v2\n("s + storage;
  EXPECT_NE(refusal(tensor + "K\x02K\x03\x85K\x01\x85tRs").find("reaches beyond its storage"), std::string::npos)
      << refusal(tensor + "K\x02K\x03\x85K\x01\x85tRs");
  EXPECT_NE(refusal(tensor + "K\x00K\x04\x85K\x01\x85tRs"s).find("storage k should have 4 elements"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
