"""Alerts on their way to people: read from the outbox in the database, delivered by a task that no call waits for.

settings   where they go, from the environment
message    what they say
channels   Slack, Google Chat, a signed webhook, e-mail
worker     claim, deliver, say how it went
admin      /admin/alerts
cli        pgbudget alerts
"""
