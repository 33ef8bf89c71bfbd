"""A pipeline on Airflow: the logical date names the run, so that a task that is tried again does its work once.

Put this file into Airflow's folder of DAGs, with parqlake in its environment. Conflicts are tried again by Airflow; bad
data is not, since it would be bad again.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from parqlake.pipeline.loading import CONFLICT, OK, run_file

PIPELINE = "/srv/shop/pipeline.toml"


def take_in(logical_day: str) -> None:
    """Runs the pipeline for one day; the task fails, for good or to be tried again, by the exit code."""
    from airflow.exceptions import AirflowException, AirflowFailException

    outcome = run_file(PIPELINE, run_id=logical_day)
    print(outcome.text)
    if outcome.exit_code == CONFLICT:
        raise AirflowException(outcome.text)
    if outcome.exit_code != OK:
        raise AirflowFailException(outcome.text) from outcome.error


def make_dag() -> Any:
    """The DAG: one task a day, one run at a time."""
    from airflow.providers.standard.operators.python import PythonOperator
    from airflow.sdk import DAG

    with DAG(
        "shop",
        schedule="5 2 * * *",
        start_date=datetime(2026, 11, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
    ) as dag:
        PythonOperator(task_id="take_in", python_callable=take_in, op_args=["{{ ds }}"])
    return dag


try:
    dag = make_dag()
except ImportError:  # where this file is only read, and Airflow is not installed
    dag = None
