// A model that answers requests, as a library for servers in any language: the calls of DeepRec's processor, whose
// hosts need another library name alone.
//
// Requests and answers are those of TensorFlow Serving's Predict API: serialized `tensorflow.serving.PredictRequest`
// and `PredictResponse`. The result of a call is a status as HTTP has it: 200; 400, the request is at fault; 500, the
// model is. Where it is not 200 the output is what is wrong, as text.
#ifndef AFO_SERVING_PROCESSOR_H_
#define AFO_SERVING_PROCESSOR_H_

#ifdef __cplusplus
extern "C" {
#endif

// Loads a model. `model_entry`: "". `model_config`: a JSON object, whose keys docs/serving.md lists. Returns what the
// other calls take, and `*state` 0; or null and -1, and then `initialize_error` says why.
void* initialize(const char* model_entry, const char* model_config, int* state);

// Of the last `initialize` of this thread; "" if it succeeded. Valid until the next one.
const char* initialize_error(void);

// Answers one request. `*output_data`, of `*output_size` bytes, is given back by `free_output`. Any number of threads
// may call at once.
int process(void* model, const void* input_data, int input_size, void** output_data, int* output_size);

// Answers several requests as one batch: `input_data` ends with a null pointer. All have the same model, signature and
// inputs. Returns 200 and an answer to each, or the status of the first that is not, whose output is what is wrong; the
// others have none.
int batch_process(void* model, const void* input_data[], int* input_size, void* output_data[], int* output_size);

// Answers the rows of a struct array of Arrow's C data interface, a column for each input of signature `signature_name`
// (null: `predict`), with a struct array of a column for each output. Hosts have the two structs from any Arrow
// library.
//
// `schema` and `batch` belong to the library from the call on, also where it fails: it calls their `release` before it
// returns, and does so for each that is neither null nor released. On 200 `answer_schema` and `answer`, which the host
// allots and this call writes, belong to the host, which calls their `release`; else their `release` is null and the
// output is what is wrong. There is no other output. The answer outlives the model.
struct ArrowSchema;
struct ArrowArray;
int process_arrow(void* model, const char* signature_name, struct ArrowSchema* schema, struct ArrowArray* batch,
                  struct ArrowSchema* answer_schema, struct ArrowArray* answer, void** output_data, int* output_size);

// What is served, as a JSON object.
int get_serving_model_info(void* model, void** output_data, int* output_size);

// Of any call above; null is nothing.
void free_output(void* output_data);

// Gives a model back. No other call may be under way, or follow, with it; null is nothing.
void finalize(void* model);

#ifdef __cplusplus
}
#endif

#endif  // AFO_SERVING_PROCESSOR_H_
