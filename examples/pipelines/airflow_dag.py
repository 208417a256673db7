"""An Airflow DAG that has a Gristmill server answer a file as a batch, with the operator of the OpenAI provider.

The connection `gristmill` names the server, its `/v1` included, as an environment variable for example:

    AIRFLOW_CONN_GRISTMILL='{"conn_type": "openai", "host": "http://127.0.0.1:8080/v1", "password": "KEY OR none"}'

The operator waits in Airflow's triggerer, not in a worker, and a task that is tried again finds the batch of its first try.
The file of the input, REVIEWS, has the columns `id` and `text`; the answers are written to ANSWERED.
"""

import csv
import datetime
import json
import os
import tempfile

from airflow.providers.openai.hooks.openai import OpenAIHook
from airflow.providers.openai.operators.openai import OpenAITriggerBatchOperator
from airflow.sdk import dag, task

REVIEWS = os.environ.get("REVIEWS", "reviews.csv")
ANSWERED = os.environ.get("ANSWERED", "answered.csv")
MODEL = os.environ.get("MODEL", "smollm2-135m-instruct")
QUESTION = "Is this review positive, negative or mixed? Answer with one word.\n\n"
ENDPOINT = "/v1/chat/completions"
CONNECTION = "gristmill"


class BatchOperator(OpenAITriggerBatchOperator):
    """The operator, with templates in what it passes on to the client."""

    template_fields = (*OpenAITriggerBatchOperator.template_fields, "batch_kwargs")


@dag(schedule=None, start_date=datetime.datetime(2026, 1, 1), catchup=False)
def reviews():
    @task
    def upload():
        """Writes a line for each review, and returns the id of the file at the server."""
        with open(REVIEWS, newline="") as rows, tempfile.NamedTemporaryFile("w", suffix=".jsonl") as lines:
            for row in csv.DictReader(rows):
                asked = [{"role": "user", "content": QUESTION + row["text"]}]
                body = {"model": MODEL, "messages": asked, "max_tokens": 8, "temperature": 0}
                line = {"custom_id": row["id"], "method": "POST", "url": ENDPOINT, "body": body}
                lines.write(json.dumps(line) + "\n")
            lines.flush()
            return OpenAIHook(CONNECTION).upload_file(lines.name, purpose="batch").id

    @task
    def download(batch):
        """Joins the answers with the reviews; a row that failed has none."""
        hook = OpenAIHook(CONNECTION)
        ended = hook.get_batch(batch)
        answers = {}
        if ended.output_file_id:
            for text in hook.conn.files.content(ended.output_file_id).iter_lines():
                line = json.loads(text)
                answers[line["custom_id"]] = line["response"]["body"]["choices"][0]["message"]["content"]
        with open(REVIEWS, newline="") as rows, open(ANSWERED, "w", newline="") as file:
            written = csv.writer(file)
            written.writerow(["id", "text", "answer"])
            for row in csv.DictReader(rows):
                written.writerow([row["id"], row["text"], answers.get(row["id"])])

    file = upload()
    batch = BatchOperator(
        task_id="answer",
        conn_id=CONNECTION,
        file_id=file,
        endpoint=ENDPOINT,
        # One batch for a file, however often the task is tried.
        batch_kwargs={"extra_headers": {"Idempotency-Key": "{{ ti.xcom_pull(task_ids='upload') }}"}},
        deferrable=True,
        poll_interval=10,
    )
    download(batch.output)


reviews()
